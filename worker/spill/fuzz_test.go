package spill

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
)

// FuzzReader reads a file that was written by nobody. seal makes the checksum of the first block right, so that what lies
// behind it is reached.
func FuzzReader(f *testing.F) {
	for _, c := range []Compression{None, S2, Zstd} {
		tap := &tapped{FS: vfs.NewMem()}
		b := newBench(f, tap, c, minBlock)
		file := b.space.NewFile()
		s := write(f, file, codecOf(f), []rec{{N: 1, Text: "hello"}, {N: 2, List: []string{"a"}}})
		info, err := tap.last.Stat()
		if err != nil {
			f.Fatal(err)
		}
		data := make([]byte, info.Size())
		if _, err := tap.last.ReadAt(data, 0); err != nil {
			f.Fatal(err)
		}
		f.Add(data, s.Records, s.Largest, true)
		f.Add(data, s.Records+1, s.Largest, false)
		data = append([]byte(nil), data...)
		data[3] = data[3]&0xf0 | byte(kindPart)
		f.Add(data, int64(1), int64(1000), true)
		data[3] = byte(kindLink)
		f.Add(data, int64(1), int64(1000), true)
	}
	c := codecOf(f)
	f.Fuzz(func(t *testing.T, data []byte, records, largest int64, seal bool) {
		if len(data) > 1<<16 || records < 0 || records > 1<<20 || largest > 1<<20 {
			return
		}
		tap := &tapped{FS: vfs.NewMem()}
		b := newBench(t, tap, None, minBlock)
		file := b.space.NewFile()
		s := write(t, file, c, []rec{{}}) // so that there is a file
		if seal && len(data) >= headerSize {
			data = append([]byte(nil), data...)
			n := min(uint64(binary.LittleEndian.Uint32(data[20:])), uint64(len(data)-headerSize))
			sum := crc32.Update(crc32.Checksum(data[:28], castagnoli), castagnoli, data[headerSize:headerSize+int(n)])
			binary.LittleEndian.PutUint32(data[28:], sum)
		}
		if err := tap.last.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if len(data) > 0 {
			if _, err := tap.last.WriteAt(data, 0); err != nil {
				t.Fatal(err)
			}
		}
		s.Records, s.Largest = records, largest
		got, err := read(file, c, s)
		if err == nil && int64(len(got)) != records {
			t.Fatalf("%d records of %d without an error", len(got), records)
		}
		if peak := b.budget.Peak(); peak > b.space.Overhead()+4*minBlock+max(largest, 0) {
			t.Fatalf("%d bytes were taken to read a file of %d", peak, len(data))
		}
		b.close(t)
	})
}
