package traffic

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/sluiceio/sluice/jepsen/cluster"
)

// Artifact is the name of a binary in a cluster: its SHA-256 in hex.
func Artifact(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Upload stores the sluice binary, which is its own job binary.
func Upload(ctx context.Context, c *cluster.Cluster, binary string) error {
	cmd := exec.CommandContext(ctx, binary, "submit", binary, "--dry-run", "-p", "job=count")
	cmd.Env = append(os.Environ(), "SLUICE_ADDR="+strings.Join(c.Addresses(), ","), "SLUICE_INSECURE="+fmt.Sprint(c.Insecure()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("upload: %w: %s", err, out)
	}
	return nil
}
