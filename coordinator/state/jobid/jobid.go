package jobid

import (
	"strconv"
	"strings"
)

// Number finds N in NAME-N.
func Number(id string) (uint64, bool) {
	i := strings.LastIndexByte(id, '-')
	if i < 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(id[i+1:], 10, 64)
	return n, err == nil && n > 0
}

// Name makes the readable part of a job id from whatever the user called the job: it becomes part of file names and
// commands, so only lower-case letters, digits and hyphens remain.
func Name(name string) string {
	const most = 40
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			gap = b.Len() > 0
			continue
		}
		if gap {
			b.WriteByte('-')
			gap = false
		}
		if b.WriteRune(r); b.Len() >= most {
			break
		}
	}
	if b.Len() == 0 {
		return "job"
	}
	return b.String()
}
