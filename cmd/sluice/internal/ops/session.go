package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Format of answers.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
)

// ParseFormat reads the value of --output.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Table, JSON:
		return f, nil
	}
	return Table, Usagef("-o table or -o json", "unknown output format %q", s)
}

// Session is what every verb works with.
type Session struct {
	Client *Client
	Out    io.Writer // the answer
	Err    io.Writer // progress and remarks
	Format Format
	// Terminal: Out and Err are seen by a person, so progress may be drawn and a view repainted.
	Terminal Terminal
	Now      func() time.Time
}

// Terminal says who reads.
type Terminal int

// The readers.
const (
	Pipe Terminal = iota
	Screen
)

// print answers with a message in JSON, or with what table writes.
func (s *Session) print(m proto.Message, table func(w *tabwriter.Writer)) error {
	if s.Format == JSON {
		return s.printJSON(m)
	}
	return s.write(strings.Join(aligned(table), "\n"))
}

// aligned returns the lines of a table, without the padding of last columns. The last line is empty.
func aligned(table func(w *tabwriter.Writer)) []string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	table(w)
	_ = w.Flush() // to a buffer
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return lines
}

// PrintValue is for verbs that live elsewhere: a value in JSON, or what table writes, cells separated by tabs.
func (s *Session) PrintValue(v any, table func(w io.Writer)) error {
	return s.printValue(v, func(w *tabwriter.Writer) { table(w) })
}

// Row writes the cells of one line of a table.
func Row(w io.Writer, cells ...any) { row(w, cells...) }

// Size shows a number of bytes to people.
func Size(bytes int64) string { return size(bytes) }

// printValue is print for answers that do not come from the API.
func (s *Session) printValue(v any, table func(w *tabwriter.Writer)) error {
	if s.Format != JSON {
		return s.write(strings.Join(aligned(table), "\n"))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return s.write(b.String())
}

func (s *Session) write(text string) error {
	if _, err := io.WriteString(s.Out, text); err != nil {
		return localFault(fmt.Errorf("write the answer: %w", err))
	}
	return nil
}

// remark tells people something that is no part of the answer.
func (s *Session) remark(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Err, format+"\n", args...) // nobody is listening if this fails
}

// printJSON writes one indented document.
func (s *Session) printJSON(m proto.Message) error {
	compact, err := marshalJSON(m)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return fmt.Errorf("indent JSON: %w", err)
	}
	return s.write(b.String() + "\n")
}

// printJSONLine writes one document on one line, for streams.
func (s *Session) printJSONLine(m proto.Message) error {
	compact, err := marshalJSON(m)
	if err != nil {
		return err
	}
	return s.write(string(compact) + "\n")
}

// marshalJSON is protobuf JSON with all fields. The library varies its blanks on purpose; ours are always the same.
func marshalJSON(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return b.Bytes(), nil
}

// row writes the cells of one line.
func row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = fmt.Sprint(c)
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	_, _ = io.WriteString(w, strings.Join(texts, "\t")+"\n") // a buffer
}
