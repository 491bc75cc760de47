// Package validate judges a run by its history alone.
//
// Each invariant I1 to I17 is one pure function of the facts that the history tells. Its verdict is pass, with the number of
// single assertions that it made; fail, with the first thing that contradicts it; unknown, where a fact that should be there is
// missing; or not judged, where the run had nothing that the invariant speaks of. Unknown is no pass, and a run that says what
// it must show (history.Run) fails to show an invariant that was not judged.
//
// Nothing here asks a cluster, reads a clock or a file. So a kept history can be judged again, by a better checker too.
package validate
