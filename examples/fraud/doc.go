// Fraud raises an alert when a small payment of an account is followed by a large one within a minute: keyed state and a timer
// by event time. README.md tells how to run it; it knows no more of the engine than any job does. The payments are made by
// the job itself, a function of their number, so that the answer is known without the engine.
package main
