// Package tools pins the development tools of the repository in a module of its own, so that none of them reaches the
// requirements of the product or of a user's job. The programs here work on the repository; nothing imports them.
package tools
