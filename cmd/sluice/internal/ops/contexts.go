package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluiceio/sluice/internal/vfs"
)

// Contexts are named clusters that a user works with, kept in a small file of the user's.
type Contexts struct {
	path string

	Current  string              `json:"current"`
	Clusters map[string]*Cluster `json:"clusters"`
}

// Cluster is how to reach one.
type Cluster struct {
	Addrs []string `json:"addrs"`
	// Insecure allows plaintext beyond loopback.
	Insecure bool `json:"insecure,omitempty"`
}

// ContextsPath is where the file stands unless SLUICE_CONTEXTS says otherwise.
func ContextsPath() (string, error) {
	if p := os.Getenv("SLUICE_CONTEXTS"); p != "" {
		return p, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", localFault(err)
	}
	return filepath.Join(dir, "sluice", "contexts.json"), nil
}

// LoadContexts reads the file; one that does not exist is empty.
func LoadContexts(path string) (*Contexts, error) {
	c := &Contexts{path: path, Clusters: map[string]*Cluster{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, localFault(err)
	}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, localFault(fmt.Errorf("%s: %w", path, err))
	}
	return c, nil
}

func (c *Contexts) save() error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	err = vfs.MakeDir(vfs.OS{}, filepath.Dir(c.path))
	if err == nil {
		err = vfs.Publish(vfs.OS{}, c.path, append(data, '\n'))
	}
	if err != nil {
		return localFault(err)
	}
	return nil
}

// Get returns a context; an empty name means the current one, and nil that there is none.
func (c *Contexts) Get(name string) (*Cluster, error) {
	if name == "" && c.Current == "" {
		return nil, nil
	}
	if name == "" {
		name = c.Current
	}
	if found := c.Clusters[name]; found != nil {
		return found, nil
	}
	f := &Fault{
		Exit: ExitNotFound, Code: CodeUsage, Err: fmt.Errorf("there is no context %q", name), Hints: []string{"sluice context add " + name + " HOST:PORT,…"},
	}
	if len(c.Clusters) > 0 {
		f.Hints = append(f.Hints, "or one of "+strings.Join(slices.Sorted(maps.Keys(c.Clusters)), ", "))
	}
	return nil, f
}

// Add makes or replaces a context; the first one becomes the current one.
func (c *Contexts) Add(name string, cluster *Cluster) error {
	c.Clusters[name] = cluster
	if c.Current == "" {
		c.Current = name
	}
	return c.save()
}

// Select makes a context the current one.
func (c *Contexts) Select(name string) error {
	if _, err := c.Get(name); err != nil {
		return err
	}
	c.Current = name
	return c.save()
}

// Remove forgets a context.
func (c *Contexts) Remove(name string) error {
	if _, err := c.Get(name); err != nil {
		return err
	}
	delete(c.Clusters, name)
	if c.Current == name {
		c.Current = ""
	}
	return c.save()
}

// Show lists the contexts.
func (c *Contexts) Show(s *Session) error {
	if len(c.Clusters) == 0 && s.Format == Table {
		s.remark("there are no contexts: sluice context add NAME HOST:PORT,… names a cluster")
	}
	return s.printValue(c, func(w *tabwriter.Writer) {
		for _, name := range slices.Sorted(maps.Keys(c.Clusters)) {
			mark := "  "
			if name == c.Current {
				mark = "* "
			}
			row(w, mark+name, strings.Join(c.Clusters[name].Addrs, ","))
		}
	})
}
