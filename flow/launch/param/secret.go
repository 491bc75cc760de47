package param

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Secret names a secret: env:NAME or file:/path. Plans, logs and job records hold only the name; the value exists where
// Reveal is called.
type Secret struct{ ref string }

// ParseSecret checks the form of a reference. It reads nothing.
func ParseSecret(ref string) (Secret, error) {
	if ref == "" {
		return Secret{}, nil
	}
	kind, name, ok := strings.Cut(ref, ":")
	if !ok || name == "" || kind != "env" && kind != "file" {
		return Secret{}, errors.New("not a reference to a secret")
	}
	return Secret{ref}, nil
}

// Reference is the text that names the secret; empty if none was given.
func (s Secret) Reference() string { return s.ref }

// String shows the reference.
func (s Secret) String() string { return "secret(" + s.ref + ")" }

// Reveal reads the secret. Call it where the value is needed, in OnStart or in a connector, not while the job is built:
// the machine that plans a job need not have it.
func (s Secret) Reveal() (string, error) {
	kind, name, _ := strings.Cut(s.ref, ":")
	switch kind {
	case "env":
		v, ok := os.LookupEnv(name)
		if !ok {
			return "", fmt.Errorf("secret %s: the environment variable is not set", s.ref)
		}
		return v, nil
	case "file":
		b, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("secret %s: %w", s.ref, err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
	return "", errors.New("secret: no reference given")
}
