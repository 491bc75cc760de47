package param

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// SettingPrefix begins the options that set the engine, not the job: --sluice.KEY=VALUE.
const SettingPrefix = "sluice."

// Args is a command line, taken apart.
type Args struct {
	Params   map[string]string
	Settings map[string]string
	Switches map[string]bool // of those that Split was told about
	Help     bool
}

// Split takes a command line apart: --name=value, --name value, --name for a bool, -name as --name, --sluice.key=value, and the
// switches given, which take no value. Names are not checked, except that an option without a value that needs one,
// an option given twice and a bare word are errors. Repeated lists are joined.
func (s *Set) Split(args []string, switches ...string) (Args, []*jobpb.Diagnostic) {
	a := Args{Params: map[string]string{}, Settings: map[string]string{}, Switches: map[string]bool{}}
	var diags []*jobpb.Diagnostic
	for len(args) > 0 {
		name, value, hasValue, bad := option(args[0])
		args = args[1:]
		switch {
		case bad != nil:
			diags = append(diags, bad)
			continue
		case name == "help" || name == "h":
			a.Help = true
			continue
		case !hasValue && slices.Contains(switches, name):
			a.Switches[name] = true
			continue
		}
		if !hasValue && s.isBool(name) {
			value, hasValue = "true", true
		}
		if !hasValue && len(args) > 0 && isValue(args[0]) {
			value, hasValue, args = args[0], true, args[1:]
		}
		if d := s.put(&a, name, value, hasValue); d != nil {
			diags = append(diags, d)
		}
	}
	return a, diags
}

// isValue: arg is no option. Negative numbers are values.
func isValue(arg string) bool {
	return !strings.HasPrefix(arg, "-") || len(arg) > 1 && (arg[1] == '.' || '0' <= arg[1] && arg[1] <= '9')
}

func option(arg string) (name, value string, hasValue bool, bad *jobpb.Diagnostic) {
	if !strings.HasPrefix(arg, "-") || strings.Trim(arg, "-") == "" {
		return "", "", false, &jobpb.Diagnostic{
			Code:    "E031",
			Message: fmt.Sprintf("unexpected argument %q", arg),
			Hints:   []string{"parameters are written --name=value; a verb (plan, vet) comes first"},
		}
	}
	name, value, hasValue = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	return name, value, hasValue, nil
}

func (s *Set) put(a *Args, name, value string, hasValue bool) *jobpb.Diagnostic {
	into, key := a.Params, name
	if k, ok := strings.CutPrefix(name, SettingPrefix); ok {
		into, key = a.Settings, k
	}
	f, known := s.lookup(name)
	if !hasValue && (known || key != name) {
		return &jobpb.Diagnostic{
			Code:    "E032",
			Message: fmt.Sprintf("--%s has no value", name),
			Hints:   []string{fmt.Sprintf("write --%s=VALUE", name)},
		}
	}
	old, twice := into[key]
	switch {
	case twice && f.Type == "list":
		value = old + "," + value
	case twice:
		return &jobpb.Diagnostic{
			Code:    "E032",
			Message: fmt.Sprintf("--%s is given twice", name),
			Hints:   []string{"give it once"},
		}
	}
	into[key] = value
	return nil
}

func (s *Set) isBool(name string) bool {
	f, ok := s.lookup(name)
	return ok && f.Type == "bool"
}

// Closest is the candidate that name was probably meant to be, or "".
func Closest(name string, candidates []string) string {
	best, at := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(name, c); d < at {
			best, at = c, d
		}
	}
	return best
}

// distance is the number of insertions, deletions and replacements between a and b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, diag+1, row[j]+1)
		}
	}
	return row[len(b)]
}
