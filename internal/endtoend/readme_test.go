package endtoend

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// printed is a command of an example and, in the next block, what it prints, or a part of it.
var printed = regexp.MustCompile("(?s)`bin/examples/([a-z]+) (plan[^`\n]*)`[^\n]*\n\n```\n(.*?)```")

// TestReadmesShowRealPlans keeps what is explained there line by line from going out of date.
func TestReadmesShowRealPlans(t *testing.T) {
	found := 0
	for _, name := range []string{"flights", "mixed", "nexmark"} {
		readme := filepath.Join(root, "examples", name, "README.md")
		text, err := os.ReadFile(readme)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range printed.FindAllStringSubmatch(string(text), -1) {
			found++
			cmd := exec.CommandContext(t.Context(), bin(m[1]), strings.Fields(m[2])...)
			cmd.Dir = root // where its user stands
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%s %s: %v", m[1], m[2], err)
			}
			if !strings.Contains(string(out), m[3]) {
				t.Errorf("%s shows for %s %s\n%s\nand it prints\n%s", readme, m[1], m[2], m[3], out)
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d plans were found", found)
	}
}
