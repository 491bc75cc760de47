package logfile

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTheBeginningOfACrashSurvivesItsLength(t *testing.T) {
	out := &Tail{}
	write := func(s string) {
		for len(s) > 0 { // in pieces that respect no line
			n := min(len(s), 7)
			if _, err := out.Write([]byte(s[:n])); err != nil {
				t.Fatal(err)
			}
			s = s[n:]
		}
	}
	write("panic: recovered and logged by user code\n" + strings.Repeat("working\n", 1000))
	write("panic: runtime error: index out of range [recovered]\n\tpanic: again\n\ngoroutine 7 [running]:\nmain.count()\n")
	write(strings.Repeat("goroutine 8 [select]: \xff\n", 5000) + "exit status")
	last, crash := out.Text()
	if !strings.HasPrefix(crash, "panic: runtime error: index out of range") || !strings.Contains(crash, "main.count()") || len(crash) > CrashBytes {
		t.Errorf("crash of %d bytes: %.100q", len(crash), crash)
	}
	if !strings.HasSuffix(last, "exit status") || len(last) > TailBytes {
		t.Errorf("tail of %d bytes: %.100q", len(last), last)
	}
	if !utf8.ValidString(last) || !utf8.ValidString(crash) {
		t.Error("not UTF-8: it cannot be sent")
	}
}

func TestAnUnfinishedLastLineBelongsToTheCrash(t *testing.T) {
	out := &Tail{}
	if _, err := out.Write([]byte("fatal error: all goroutines are asleep")); err != nil {
		t.Fatal(err)
	}
	if _, crash := out.Text(); !strings.HasPrefix(crash, "fatal error: all goroutines") {
		t.Errorf("crash: %q", crash)
	}
}

func TestAVeryLongLineIsNoBurden(t *testing.T) {
	out := &Tail{}
	for range 100 {
		if _, err := out.Write([]byte(strings.Repeat("x", 100_000))); err != nil {
			t.Fatal(err)
		}
	}
	if last, crash := out.Text(); len(last) != TailBytes || crash != "" {
		t.Errorf("%d bytes, crash %q", len(last), crash)
	}
	if n := cap(out.mu.line); n > 2*CrashBytes {
		t.Errorf("the line takes %d bytes", n)
	}
}
