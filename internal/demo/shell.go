package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// shell runs the commands that a user would type.
type shell struct {
	sluice string
	data   string
	addr   string // API addresses of all coordinators
	nodes  []node
}

// node is an entry of the cluster.json that `sluice dev` writes.
type node struct {
	Name string `json:"name"`
	Role string `json:"role"`
	PID  int    `json:"pid"`
	API  string `json:"api"`
}

func (d *shell) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.sluice, args...)
	cmd.Env = append(os.Environ(), "SLUICE_ADDR="+d.addr)
	return cmd
}

// show prints the command and what it says.
func (d *shell) show(ctx context.Context, args ...string) error {
	fmt.Println("   $ sluice " + strings.Join(args, " "))
	cmd := d.command(ctx, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	for line := range strings.Lines(out.String()) {
		fmt.Print("     " + line)
	}
	if err != nil {
		return fmt.Errorf("sluice %s: %w", args[0], err)
	}
	return nil
}

// output is what the command prints to stdout.
func (d *shell) output(ctx context.Context, args ...string) (string, error) {
	cmd := d.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("sluice %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func (d *shell) readNodes() error {
	raw, err := os.ReadFile(filepath.Join(d.data, "cluster.json"))
	if err != nil {
		return err
	}
	var file struct {
		Nodes []node `json:"nodes"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return err
	}
	var addrs []string
	for _, n := range file.Nodes {
		if n.Role == "coordinator" {
			addrs = append(addrs, n.API)
		}
	}
	d.nodes, d.addr = file.Nodes, strings.Join(addrs, ",")
	return nil
}

func (d *shell) submit(ctx context.Context, binary string, params map[string]string) (string, error) {
	args := []string{"submit", binary, "--parallelism", "3"}
	for _, k := range []string{"query", "input", "out", "rate"} {
		args = append(args, "-p", k+"="+params[k])
	}
	if err := d.show(ctx, args...); err != nil {
		return "", err
	}
	raw, err := d.output(ctx, "list", "-o", "json")
	if err != nil {
		return "", err
	}
	var list struct{ Jobs []struct{ ID string } }
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return "", err
	}
	if len(list.Jobs) != 1 {
		return "", fmt.Errorf("%d jobs after one submit", len(list.Jobs))
	}
	return list.Jobs[0].ID, nil
}

// killLeader ends the leader's process and returns the time until the cluster answers about the job again.
func (d *shell) killLeader(ctx context.Context, job string) (time.Duration, error) {
	raw, err := d.output(ctx, "peers", "-o", "json")
	if err != nil {
		return 0, err
	}
	var peers struct {
		Peers []struct {
			APIAddress string `json:"apiAddress"`
			Role       string
		}
	}
	if err := json.Unmarshal([]byte(raw), &peers); err != nil {
		return 0, err
	}
	for _, p := range peers.Peers {
		if p.Role != "leader" {
			continue
		}
		i := slices.IndexFunc(d.nodes, func(n node) bool { return n.API == p.APIAddress })
		if i < 0 {
			return 0, fmt.Errorf("the leader %s is not in cluster.json", p.APIAddress)
		}
		fmt.Printf("   $ kill -9 %d        # %s, the leader\n", d.nodes[i].PID, d.nodes[i].Name)
		if err := syscall.Kill(d.nodes[i].PID, syscall.SIGKILL); err != nil {
			return 0, err
		}
		start := time.Now()
		_, err := d.status(ctx, job) // waits for a leader; not a stale read
		return time.Since(start), err
	}
	return 0, errors.New("no leader among the peers")
}

func (d *shell) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	say("5. The end")
	if err := d.show(ctx, "dev", "stop", "--data-dir", d.data); err != nil {
		return err
	}
	for _, n := range d.nodes {
		if running(n.PID, d.sluice) {
			return fmt.Errorf("%s (pid %d) still runs", n.Name, n.PID)
		}
	}
	fmt.Println("   no process and no file is left")
	return nil
}

// running: pid is still a process of our binary, not a stranger that has got the number since.
func running(pid int, binary string) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err == nil && strings.HasPrefix(exe, binary)
}
