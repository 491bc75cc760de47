//go:build unix

package cluster

import "syscall"

// processAttributes puts every node into a process group of its own, so that a ctrl-C at the terminal of the test
// reaches the test first and the nodes only through Close.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
