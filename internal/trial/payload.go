package main

import (
	"strings"
	"sync"
)

// noise is text that no compression shortens much.
var noise = sync.OnceValue(func() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = alphabet[scatter(int64(i))%uint64(len(alphabet))]
	}
	return string(b)
})

// payload is text of the size asked for, another one for each i.
func payload(i int64, size int) string {
	noise := noise()
	if size > len(noise)/2 {
		return strings.Repeat(noise, size/len(noise)+1)[:size]
	}
	at := int(scatter(i) % uint64(len(noise)-size))
	return noise[at : at+size]
}

// scatter is a bijection of the 64-bit numbers that looks random (the finaliser of MurmurHash3).
func scatter(i int64) uint64 {
	x := uint64(i) + 0x9e3779b97f4a7c15
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
