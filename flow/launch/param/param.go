package param

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Set is the parameters of one configuration struct.
type Set struct {
	fields []Field
}

// Field is one parameter: an exported field of the struct.
type Field struct {
	Name    string // as on the command line
	Help    string
	Default string
	Type    string // for the usage text

	value reflect.Value
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[Secret]()
	stringsType  = reflect.TypeFor[[]string]()
)

// Of describes the struct that cfg points to and leaves its values alone. Tags: flag:"name" (otherwise the lower-case
// field name), default:"text", help:"one line". Fields that are not exported and those tagged flag:"-" are no parameters.
func Of(cfg any) (*Set, []*jobpb.Diagnostic) {
	v := reflect.ValueOf(cfg)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil, []*jobpb.Diagnostic{{
			Code:    "E035",
			Message: fmt.Sprintf("the configuration is a %T, not a struct", cfg),
			Hints:   []string{"give flow.Main a build function whose second argument points to a struct; flow.NoConfig has no fields"},
		}}
	}
	s := &Set{}
	var diags []*jobpb.Diagnostic
	for i := range v.Elem().NumField() {
		t := v.Elem().Type().Field(i)
		if !t.IsExported() || t.Tag.Get("flag") == "-" {
			continue
		}
		f := field(t, v.Elem().Field(i))
		if d := s.check(f, t); d != nil {
			diags = append(diags, d)
			continue
		}
		s.fields = append(s.fields, f)
	}
	return s, diags
}

// SetDefaults gives every field its default.
func (s *Set) SetDefaults() []*jobpb.Diagnostic {
	var diags []*jobpb.Diagnostic
	for _, f := range s.fields {
		if f.Default == "" {
			continue
		}
		if err := f.set(f.Default); err != nil {
			diags = append(diags, badValue(f, f.Default, fmt.Errorf("default: %w", err)))
		}
	}
	return diags
}

func field(t reflect.StructField, v reflect.Value) Field {
	name := t.Tag.Get("flag")
	if name == "" {
		name = strings.ToLower(t.Name)
	}
	return Field{Name: name, Help: t.Tag.Get("help"), Default: t.Tag.Get("default"), Type: typeName(t.Type), value: v}
}

func (s *Set) check(f Field, t reflect.StructField) *jobpb.Diagnostic {
	switch {
	case f.Type == "":
		return &jobpb.Diagnostic{
			Code:    "E035",
			Message: fmt.Sprintf("configuration field %s has type %s, which cannot be a parameter", t.Name, t.Type),
			Hints:   []string{"use string, []string, bool, an integer, a float, time.Duration or flow.Secret"},
		}
	case reserved(f.Name):
		return &jobpb.Diagnostic{
			Code:    "E035",
			Message: fmt.Sprintf("configuration field %s cannot be called %q", t.Name, f.Name),
			Hints:   []string{`choose a name without dots, spaces and "=" that is not taken by the engine: flag:"name"`},
		}
	case slices.ContainsFunc(s.fields, func(o Field) bool { return o.Name == f.Name }):
		return &jobpb.Diagnostic{
			Code:    "E035",
			Message: fmt.Sprintf("two configuration fields are called %q", f.Name),
			Hints:   []string{`give one of them another name: flag:"name"`},
		}
	}
	return nil
}

// reserved names mean something to the job binary itself, or could not be written on a command line.
func reserved(name string) bool {
	return slices.Contains([]string{"help", "h", "json", "dot", "v"}, name) || strings.ContainsAny(name, ".= \t") ||
		strings.HasPrefix(name, "-")
}

func typeName(t reflect.Type) string {
	switch t {
	case durationType:
		return "duration"
	case secretType:
		return "secret"
	case stringsType:
		return "list"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Float32, reflect.Float64:
		return "float"
	}
	return ""
}

// Fields lists the parameters in the order of the struct.
func (s *Set) Fields() []Field { return s.fields }

func (s *Set) lookup(name string) (Field, bool) {
	i := slices.IndexFunc(s.fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return s.fields[i], true
}

// Apply sets the fields that values names, and reports every unknown name and unreadable value.
func (s *Set) Apply(values map[string]string) []*jobpb.Diagnostic {
	names := make([]string, 0, len(values))
	for n := range values {
		names = append(names, n)
	}
	slices.Sort(names)
	var diags []*jobpb.Diagnostic
	for _, n := range names {
		f, ok := s.lookup(n)
		if !ok {
			diags = append(diags, s.unknown(n))
			continue
		}
		if err := f.set(values[n]); err != nil {
			diags = append(diags, badValue(f, values[n], err))
		}
	}
	return diags
}

// Values is the resolved text of every parameter; Apply of it gives the same struct.
func (s *Set) Values() map[string]string {
	m := make(map[string]string, len(s.fields))
	for _, f := range s.fields {
		m[f.Name] = f.text()
	}
	return m
}

func (s *Set) unknown(name string) *jobpb.Diagnostic {
	d := &jobpb.Diagnostic{Code: "E031", Message: fmt.Sprintf("unknown parameter --%s", name)}
	var names []string
	for _, f := range s.fields {
		names = append(names, f.Name)
	}
	if c := Closest(name, names); c != "" {
		d.Hints = append(d.Hints, fmt.Sprintf("did you mean --%s?", c))
	}
	if len(names) == 0 {
		d.Hints = append(d.Hints, "the job has no parameters")
	} else {
		d.Hints = append(d.Hints, "known parameters: --"+strings.Join(names, ", --"))
	}
	if name == "p" {
		d.Hints = append(d.Hints, "-p name=value is for sluice submit; here it is --name=value")
	}
	return d
}

func badValue(f Field, text string, err error) *jobpb.Diagnostic {
	d := &jobpb.Diagnostic{
		Code:    "E032",
		Message: fmt.Sprintf("--%s=%q: %v", f.Name, text, err),
		Hints:   []string{fmt.Sprintf("--%s wants %s", f.Name, wants(f.Type))},
	}
	if f.Type == "secret" {
		d.Message = fmt.Sprintf("--%s: %v", f.Name, err) // what was given may be the secret itself
	}
	return d
}

func wants(typ string) string {
	switch typ {
	case "list":
		return "texts separated by commas"
	case "bool":
		return "true or false"
	case "int":
		return "an integer, as in 42"
	case "float":
		return "a number, as in 0.5"
	case "duration":
		return "a duration, as in 1m30s"
	case "secret":
		return "a reference, env:NAME or file:/path, never the secret itself"
	}
	return "text"
}

func (f Field) set(text string) error {
	v := f.value
	switch f.Type {
	case "secret":
		s, err := ParseSecret(text)
		v.Set(reflect.ValueOf(s))
		return err
	case "duration":
		d, err := time.ParseDuration(text)
		v.SetInt(int64(d))
		return reason(err)
	case "list":
		v.Set(reflect.ValueOf(list(text)))
		return nil
	}
	return f.setBasic(text)
}

func (f Field) setBasic(text string) error {
	v := f.value
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		v.SetBool(b)
		return reason(err)
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
		return reason(err)
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(n)
		return reason(err)
	case v.CanFloat():
		x, err := strconv.ParseFloat(text, v.Type().Bits())
		v.SetFloat(x)
		return reason(err)
	}
	return nil
}

// reason is err without the name of the function that found it.
func reason(err error) error {
	if err == nil {
		return nil
	}
	if num, ok := errors.AsType[*strconv.NumError](err); ok {
		return num.Err
	}
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "time: "))
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (f Field) text() string {
	switch x := f.value.Interface().(type) {
	case Secret:
		return x.Reference()
	case time.Duration:
		return x.String()
	case []string:
		return strings.Join(x, ",")
	}
	return fmt.Sprint(f.value.Interface())
}

// Check reports what Apply would, and changes nothing.
func (s *Set) Check(values map[string]string) []*jobpb.Diagnostic {
	scratch := &Set{fields: slices.Clone(s.fields)}
	for i := range scratch.fields {
		scratch.fields[i].value = reflect.New(scratch.fields[i].value.Type()).Elem()
	}
	return scratch.Apply(values)
}
