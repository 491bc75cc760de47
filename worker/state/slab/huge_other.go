//go:build !linux

package slab

import "unsafe"

func adviseHuge(unsafe.Pointer, int) {}
