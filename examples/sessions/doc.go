// Sessions groups the page views of users into visits, which end after a quarter of an hour without one. Views that come too
// late for their visit go to a side output. README.md tells how to run it; it knows no more of the engine than any job does. The
// views are made by the job itself, a function of their number, so that the answer is known without the engine.
package main
