package parquet

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/internal/localfile"
)

const splitVersion = 1

// group is a row group of one file, and how far it has been read.
type group struct {
	Path string `json:"path"`
	localfile.Stamp
	Group int   `json:"group"`
	Rows  int64 `json:"rows"`
	Next  int64 `json:"next"` // the first row that was not delivered
}

func (g *group) split() connector.Split {
	data, err := json.Marshal(g)
	if err != nil {
		panic(fmt.Sprintf("a group of strings and integers cannot be encoded: %v", err))
	}
	return connector.Split{ID: g.Path + "#" + strconv.Itoa(g.Group), Version: splitVersion, Data: data}
}

func decode(s connector.Split) (*group, error) {
	if s.Version != splitVersion {
		return nil, fmt.Errorf("parquet split %q has version %d, this connector reads %d", s.ID, s.Version, splitVersion)
	}
	g := new(group)
	if err := json.Unmarshal(s.Data, g); err != nil {
		return nil, fmt.Errorf("parquet split %q: %w", s.ID, err)
	}
	if g.Path == "" || g.Group < 0 || g.Rows < 1 || g.Next < 0 || g.Next > g.Rows || g.Size < 0 {
		return nil, fmt.Errorf("parquet split %q: impossible row group %d with row %d of %d", s.ID, g.Group, g.Next, g.Rows)
	}
	return g, nil
}
