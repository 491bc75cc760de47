package artifact

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
)

// Platform is what a binary runs on, in Go's names.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// ErrNotELF: the file is no ELF executable.
var ErrNotELF = errors.New("not an ELF executable")

// Inspect reads the platform of an ELF executable from its header.
func Inspect(r io.ReaderAt) (Platform, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return Platform{}, fmt.Errorf("%w%s", ErrNotELF, kindOf(r))
	}
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return Platform{}, fmt.Errorf("%w: an ELF file of type %s", ErrNotELF, f.Type)
	}
	return Platform{OS: osOf(f), Arch: archOf(f)}, nil
}

// kindOf names what people upload by mistake.
func kindOf(r io.ReaderAt) string {
	var magic [4]byte
	if n, _ := r.ReadAt(magic[:], 0); n < len(magic) {
		return ": too short"
	}
	switch m := string(magic[:]); {
	case m == "\xcf\xfa\xed\xfe" || m == "\xca\xfe\xba\xbe":
		return ": a macOS executable"
	case m[:2] == "MZ":
		return ": a Windows executable"
	case m[:2] == "#!":
		return ": a script"
	case m == "\x7fELF":
		return ": the ELF header is damaged"
	}
	return ""
}

func osOf(f *elf.File) string {
	switch f.OSABI {
	case elf.ELFOSABI_FREEBSD:
		return "freebsd"
	case elf.ELFOSABI_NETBSD:
		return "netbsd"
	case elf.ELFOSABI_OPENBSD:
		return "openbsd"
	case elf.ELFOSABI_SOLARIS:
		return "solaris"
	}
	// Some systems leave the field empty and say it in a note.
	for note, os := range map[string]string{".note.netbsd.ident": "netbsd", ".note.openbsd.ident": "openbsd"} {
		if f.Section(note) != nil {
			return os
		}
	}
	return "linux"
}

func archOf(f *elf.File) string {
	little := f.Data == elf.ELFDATA2LSB
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_386:
		return "386"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_ARM:
		return "arm"
	case elf.EM_RISCV:
		return "riscv64"
	case elf.EM_S390:
		return "s390x"
	case elf.EM_LOONGARCH:
		return "loong64"
	case elf.EM_PPC64:
		if little {
			return "ppc64le"
		}
		return "ppc64"
	}
	return f.Machine.String()
}
