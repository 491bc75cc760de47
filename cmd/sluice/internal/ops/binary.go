package ops

import (
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// binary is a job's executable on its way to the cluster.
type binary struct {
	path     string
	size     int64
	digest   string // SHA-256, lower-case hex
	platform string // os/arch
}

// inspect looks at a file before anything is uploaded: is it a program at all, and for this cluster's machines? What
// only running it can tell is found out by a worker.
func inspect(path string, platforms []string) (*binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, localFault(err)
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, localFault(err)
	}
	b := &binary{path: path, size: info.Size()}
	if b.platform, err = platformOf(f, path); err != nil {
		return nil, err
	}
	if len(platforms) > 0 && !slices.Contains(platforms, b.platform) {
		return nil, foreignPlatform(path, b.platform, platforms)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, localFault(fmt.Errorf("read %s: %w", path, err))
	}
	b.digest = hex.EncodeToString(h.Sum(nil))
	return b, nil
}

func platformOf(f *os.File, path string) (string, error) {
	head, err := elf.NewFile(f)
	if err != nil {
		return "", notELF(f, path)
	}
	// A Go program says what it was built for; the header alone cannot tell the systems apart that use ELF.
	if info, err := buildinfo.Read(f); err == nil {
		if goos, arch := buildSetting(info, "GOOS"), buildSetting(info, "GOARCH"); goos != "" && arch != "" {
			return goos + "/" + arch, nil
		}
	}
	return "linux/" + machine(head), nil
}

func buildSetting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// machine is Go's name of an ELF machine, or the header's own.
func machine(f *elf.File) string {
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_386:
		return "386"
	case elf.EM_ARM:
		return "arm"
	case elf.EM_RISCV:
		return "riscv64"
	}
	return f.Machine.String()
}

func notELF(f io.ReaderAt, path string) error {
	var magic [4]byte
	n, err := f.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return localFault(err)
	}
	what := ""
	switch m := string(magic[:n]); {
	case n < len(magic):
		what = " (it is shorter than a header)"
	case m == "\xcf\xfa\xed\xfe" || m == "\xca\xfe\xba\xbe":
		what = " (it is a macOS executable)"
	case strings.HasPrefix(m, "MZ"):
		what = " (it is a Windows executable)"
	case strings.HasPrefix(m, "#!"):
		what = " (it is a script)"
	}
	return &Fault{
		Exit: ExitUsage, Code: CodeNotELF, Err: fmt.Errorf("%s is not an ELF executable%s", path, what), Where: path,
		Hints: []string{"sluice submit PACKAGE-DIRECTORY builds for the cluster", "or GOOS=linux CGO_ENABLED=0 go build, and submit the result"},
	}
}

func foreignPlatform(path, have string, want []string) error {
	goos, arch, _ := strings.Cut(want[0], "/")
	return &Fault{
		Exit: ExitUsage, Code: CodeForeignPlatform, Where: path,
		Err: fmt.Errorf("%s is built for %s, the workers are %s", path, have, strings.Join(want, ", ")),
		Hints: []string{
			"sluice submit PACKAGE-DIRECTORY builds for the cluster",
			fmt.Sprintf("or GOOS=%s GOARCH=%s CGO_ENABLED=0 go build, and submit the result", goos, arch),
		},
	}
}
