package query

import (
	"strconv"

	"github.com/sluiceio/sluice/flow"
)

// row builds a canonical row: fields joined by '|', integers in decimal, times in microseconds.
type row struct {
	bytes []byte
	start int // where the row begins
}

func (r row) next() []byte {
	if len(r.bytes) == r.start {
		return r.bytes
	}
	return append(r.bytes, '|')
}

func (r row) text(s string) row { return row{append(r.next(), s...), r.start} }
func (r row) num(v int64) row   { return row{strconv.AppendInt(r.next(), v, 10), r.start} }

func (r row) nums(vs ...int64) row {
	for _, v := range vs {
		r = r.num(v)
	}
	return r
}

func (r row) time(t flow.Time) row { return r.num(int64(t)) }
