// Recommend follows what users search for and click on, and recommends items to them, minute by minute: windows, calls of services,
// a merge of their answers, and a join with the state of users. README.md tells how to run it; it knows no more of the engine
// than any job does. The services are local stand-ins, functions of what they are asked, and the input is made by the job itself,
// so that the answer is known without the engine.
package main
