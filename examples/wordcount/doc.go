// Command wordcount counts the words of text files: the shortest job that has a shuffle.
//
// It is a job like any user's: it imports flow and connectors, nothing else of the project.
package main
