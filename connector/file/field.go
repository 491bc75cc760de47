package file

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// field is one field of the record type: which it is and how a cell becomes its value. Compiled once per reader.
type field struct {
	name  string
	index int // in the struct
	kind  reflect.Kind
	bits  int
	form  form
}

type form uint8

const (
	plain     form = iota
	micros         // an integer of microseconds since the epoch, written as a time
	timestamp      // time.Time
)

func fieldsOf(t reflect.Type) ([]field, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("CSV records need a struct, not %v", t)
	}
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, option, _ := strings.Cut(sf.Tag.Get("csv"), ",")
		if name == "-" {
			continue
		}
		if !sf.IsExported() {
			return nil, fmt.Errorf("field %v.%s is not exported: export it, or leave it out with `csv:\"-\"`", t, sf.Name)
		}
		if name == "" {
			name = sf.Name
		}
		fl := field{name: name, index: i, kind: sf.Type.Kind()}
		switch {
		case sf.Type == reflect.TypeFor[time.Time]():
			fl.form = timestamp
		case option == "time" && fl.kind == reflect.Int64:
			fl.form = micros
		case option != "":
			return nil, fmt.Errorf("field %v.%s: option %q does not fit %v", t, sf.Name, option, sf.Type)
		case fl.kind >= reflect.Int && fl.kind <= reflect.Uint64, fl.kind == reflect.Float32, fl.kind == reflect.Float64:
			fl.bits = sf.Type.Bits()
		case fl.kind != reflect.String && fl.kind != reflect.Bool:
			return nil, fmt.Errorf("field %v.%s: a cell cannot become %v", t, sf.Name, sf.Type)
		}
		fields = append(fields, fl)
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%v has no field that a column could fill", t)
	}
	return fields, nil
}

// set decodes cell into the field of record, which is addressable.
func (f *field) set(record reflect.Value, cell []byte, w *words) error {
	to := record.Field(f.index)
	switch {
	case f.form == timestamp:
		us, err := w.clock.parse(cell)
		*to.Addr().Interface().(*time.Time) = time.UnixMicro(us).UTC()
		return err
	case f.form == micros:
		us, err := w.clock.parse(cell)
		to.SetInt(us)
		return err
	}
	switch f.kind {
	case reflect.String:
		to.SetString(w.get(cell))
		return nil
	case reflect.Bool:
		b, err := strconv.ParseBool(string(cell))
		to.SetBool(b)
		return cause(err)
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(string(cell), f.bits)
		to.SetFloat(x)
		return cause(err)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		x, err := strconv.ParseUint(string(cell), 10, f.bits)
		to.SetUint(x)
		return cause(err)
	}
	x, err := parseInt(cell, f.bits)
	to.SetInt(x)
	return err
}

// parseInt reads short decimal integers without going through a string; anything unusual is left to strconv.
func parseInt(cell []byte, bits int) (int64, error) {
	digits := cell
	if len(cell) > 0 && cell[0] == '-' {
		digits = cell[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || bits != 64 {
		x, err := strconv.ParseInt(string(cell), 10, bits)
		return x, cause(err)
	}
	var x int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			_, err := strconv.ParseInt(string(cell), 10, bits)
			return 0, cause(err)
		}
		x = x*10 + int64(c-'0')
	}
	if len(digits) < len(cell) {
		x = -x
	}
	return x, nil
}

// cause takes strconv's function name out of its error and keeps the value and the reason.
func cause(err error) error {
	var n *strconv.NumError
	if errors.As(err, &n) {
		return fmt.Errorf("%q: %w", n.Num, n.Err)
	}
	return err
}

// clock reads times and remembers the last date: records that follow each other mostly share it.
type clock struct {
	date     [10]byte
	midnight int64 // of date, in microseconds since the epoch
}

// parse reads "2006-01-02 15:04:05" in UTC by position, and RFC 3339 otherwise, into microseconds since the epoch.
func (c *clock) parse(cell []byte) (int64, error) {
	if len(cell) == len(time.DateTime) && cell[10] == ' ' && cell[13] == ':' && cell[16] == ':' {
		h, mi, s := twoDigits(cell[11:]), twoDigits(cell[14:]), twoDigits(cell[17:])
		if h < 24 && mi < 60 && s < 60 && c.day(cell[:10]) {
			return c.midnight + int64(h*3600+mi*60+s)*1e6, nil
		}
	}
	t, err := time.Parse(time.RFC3339Nano, string(cell))
	if err != nil {
		return 0, fmt.Errorf("%q is not a time like 2006-01-02 15:04:05 or 2006-01-02T15:04:05Z", cell)
	}
	return t.UnixMicro(), nil
}

func (c *clock) day(date []byte) bool {
	if string(date) == string(c.date[:]) {
		return true
	}
	t, err := time.Parse(time.DateOnly, string(date))
	if err != nil {
		return false
	}
	copy(c.date[:], date)
	c.midnight = t.UnixMicro()
	return true
}

// twoDigits is the number in b[0:2], or 255.
func twoDigits(b []byte) int {
	hi, lo := b[0]-'0', b[1]-'0'
	if hi > 9 || lo > 9 {
		return 255
	}
	return int(hi)*10 + int(lo)
}

// words shares the strings of short cells that come again and again, such as codes: one allocation per distinct value
// instead of one per record.
type words struct {
	seen  map[string]string
	clock clock
}

const (
	maxWord  = 24   // bytes
	maxWords = 4096 // distinct values; beyond, strings are simply allocated
)

func (w *words) get(cell []byte) string {
	if len(cell) > maxWord {
		return string(cell)
	}
	if s, ok := w.seen[string(cell)]; ok {
		return s
	}
	s := string(cell)
	if len(w.seen) < maxWords {
		if w.seen == nil {
			w.seen = map[string]string{}
		}
		w.seen[s] = s
	}
	return s
}
