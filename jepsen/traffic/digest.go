package traffic

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Digest identifies a multiset of rows, whatever their order: their number, and sum and exclusive-or of the FNV-1a 64
// hashes of the rows.
type Digest struct {
	Count    int64  `json:"count"`
	Sum, Xor string // 16 hexadecimal digits
}

// DigestDir reads every committed part file below dir. Hidden files and directories are output in progress.
func DigestDir(dir string) (Digest, error) {
	var count int64
	var sum, xor uint64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 16<<20)
		for sc.Scan() {
			h := fnv1a(sc.Bytes())
			count++
			sum += h
			xor ^= h
		}
		return sc.Err()
	})
	return Digest{Count: count, Sum: fmt.Sprintf("%016x", sum), Xor: fmt.Sprintf("%016x", xor)}, err
}

// fnv1a is FNV-1a 64 (Fowler, Noll, Vo).
func fnv1a(row []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range row {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}
