// Command flights asks questions about real flight records: README.md has the data and the definition of every query.
//
// It is a job like any user's: it imports flow and connectors, nothing else of the project.
package main
