//go:build unix

package pipe

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// rightsSpace holds the control message of one descriptor, and a few more so that surplus ones are seen and closed.
var rightsSpace = unix.CmsgSpace(4 * 4)

// rights is the control message that passes fd.
func rights(fd int) []byte { return unix.UnixRights(fd) }

// received takes over the descriptors of a control message.
func received(oob []byte, flags int) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed connection"))
		}
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return files, errors.New("control message was cut, probably for want of free descriptors")
	}
	return files, nil
}

// socketPair makes one socket; here stays in the agent, there is for the process. Neither leaks into other children.
func socketPair() (here *net.UnixConn, there *os.File, err error) {
	syscall.ForkLock.RLock() // not every system can mark the descriptors in the same call
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	there = os.NewFile(uintptr(fds[1]), "link, process end")
	here, err = unixConn(os.NewFile(uintptr(fds[0]), "link, agent end"))
	if err != nil {
		return nil, nil, errors.Join(err, there.Close())
	}
	return here, there, nil
}

func keepFromChildren(fd int) { unix.CloseOnExec(fd) }
