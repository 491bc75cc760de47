package failpoint

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type action string

const (
	actError action = "error"
	actPanic action = "panic"
	actExit  action = "exit"
	actKill  action = "kill"
	actStop  action = "stop"
	actPause action = "pause"
	actDelay action = "delay"
)

// spec is one armed point as it was asked for.
type spec struct {
	key    string // NAME or NAME@SCOPE
	first  int64  // number of the first hit that acts
	later  int64  // and of the last
	action action
	text   string        // error, panic; the directory of a pause
	code   int           // exit
	delay  time.Duration // delay
}

func (s spec) selects(hit int64) bool { return hit >= s.first && hit <= s.later }

func (s spec) name() string {
	name, _, _ := strings.Cut(s.key, "@")
	return name
}

const forever = 1<<63 - 1

// name, scope, number, plus, action, argument
var form = regexp.MustCompile(`^([a-z0-9-]+(?:\.[a-z0-9-]+)+)(@[^=\s]+)?=(?:([1-9][0-9]*)(\+)?:)?([a-z]+)(?:\((.*)\))?$`)

// parse reads a list of points separated by semicolons. Blanks around them and empty ones are ignored.
func parse(list string) ([]spec, error) {
	var specs []spec
	seen := map[string]bool{}
	for item := range strings.SplitSeq(list, ";") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		s, err := parseOne(item)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		if seen[s.key] {
			return nil, fmt.Errorf("%q: the point is armed twice", item)
		}
		seen[s.key] = true
		specs = append(specs, s)
	}
	return specs, nil
}

func parseOne(item string) (spec, error) {
	m := form.FindStringSubmatch(item)
	if m == nil {
		return spec{}, errors.New("not of the form PACKAGE.STEP[@SCOPE]=[N[+]:]ACTION[(ARGUMENT)]")
	}
	s := spec{key: m[1] + m[2], first: 1, later: forever, action: action(m[5])}
	if m[3] != "" {
		n, err := strconv.ParseInt(m[3], 10, 64)
		if err != nil {
			return spec{}, err
		}
		s.first, s.later = n, n
		if m[4] != "" {
			s.later = forever
		}
	}
	if err := s.argument(m[6]); err != nil {
		return spec{}, err
	}
	return s, nil
}

func (s *spec) argument(text string) (err error) {
	switch s.action {
	case actError, actPanic, actPause:
		s.text = text
	case actExit:
		s.code = 1
		if text != "" {
			s.code, err = strconv.Atoi(text)
		}
	case actDelay:
		s.delay, err = time.ParseDuration(text)
		if err == nil && s.delay < 0 {
			err = errors.New("negative delay")
		}
	case actKill, actStop:
		if text != "" {
			err = fmt.Errorf("%s takes no argument", s.action)
		}
	default:
		err = fmt.Errorf("unknown action %q", s.action)
	}
	return err
}
