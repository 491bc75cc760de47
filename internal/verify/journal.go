package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// journal remembers the claims that held for one build, so that an interrupted run goes on.
type journal struct {
	path  string
	Build string // digest of the binaries
	Held  map[string]held
}

// held is what was seen of a claim that holds.
type held struct {
	Figure string
	Took   time.Duration
}

// openJournal reads what is known about this build; of another build nothing is known.
func openJournal(path, build string) (*journal, error) {
	fresh := &journal{path: path, Build: build, Held: map[string]held{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, err
	}
	j := &journal{path: path}
	if err := json.Unmarshal(raw, j); err != nil || j.Build != build || j.Held == nil {
		return fresh, nil // a journal is a convenience: what cannot be used is begun anew
	}
	return j, nil
}

func (j *journal) note(r result) error {
	if r.err != nil {
		return nil
	}
	j.Held[r.name] = held{Figure: r.figure, Took: r.took}
	raw, err := json.MarshalIndent(j, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(j.path, raw, 0o644) // half of it is as good as none
}

// buildOf is the digest of every binary below dir.
func buildOf(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "tools" {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Mode()&0o111 == 0 {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(h, f)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
