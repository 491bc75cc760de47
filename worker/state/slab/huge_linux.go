package slab

import (
	"syscall"
	"unsafe"
)

// hugePage is the size of a huge page, in bytes.
const hugePage = 2 << 20

// madvCollapse asks for huge pages now; the kernel has it since 6.1.
const madvCollapse = 25

// adviseHuge asks for huge pages for the memory around a large piece of the heap. Whole huge pages are named, although
// their ends belong to somebody else: memory of the heap all the same, and an extent is rarely aligned. What the heap
// has used before lies in small pages already, and is moved together, which takes about 0.1 ms per huge page. All of it
// is a wish: a kernel that does not know it goes on with small pages.
func adviseHuge(p unsafe.Pointer, size int) {
	if size < hugeExtent {
		return
	}
	first := uintptr(p) &^ (hugePage - 1)
	end := (uintptr(p) + uintptr(size) + hugePage - 1) &^ (hugePage - 1)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, first, end-first, syscall.MADV_HUGEPAGE)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, first, end-first, madvCollapse)
}
