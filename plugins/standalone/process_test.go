package standalone_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

func TestPluginsThatDoNotStart(t *testing.T) {
	tests := []struct{ role, want string }{
		{"chatter", `not a connector: it printed "hello"`},
		{"future", "incompatible API version with plugin. Plugin version: 7"},
		{"away", "not a loopback address"},
		{"odd network", `unknown network "udp"`},
		{"silent", "did not become ready"},
		{"dead", "no disk"},
	}
	for _, tt := range tests {
		t.Run(tt.role, func(t *testing.T) {
			t.Parallel()
			c, _ := client(t, tt.role)
			if tt.role == "silent" {
				c.StartTimeout = 50 * time.Millisecond
			}
			_, err := c.Specify(testContext(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), filepath.Base(c.Path)) {
				t.Errorf("got %v, want it to say %s", err, tt.want)
			}
		})
	}
	c := &standalone.Client{Path: filepath.Join(t.TempDir(), "missing")}
	if _, err := c.Specify(testContext(t)); err == nil {
		t.Error("missing executable: want an error")
	}
}

// sayCertificate prints the handshake of a plugin that was asked for a certificate.
func sayCertificate() {
	public, private, _ := ed25519.GenerateKey(nil)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		panic(err)
	}
	fmt.Println("1|2|unix|/nowhere|grpc|" + base64.RawStdEncoding.EncodeToString(der))
	select {}
}

// The host requests no certificate, and a certificate does no harm.
func TestPluginWithACertificate(t *testing.T) {
	t.Parallel()
	c, _ := client(t, "certificate")
	standalone.SetEndTimeouts(c, 10*time.Millisecond)
	if _, err := c.Specify(testContext(t)); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("got %v, want that it cannot be dialled", err)
	}
}

func TestStartThatIsCancelled(t *testing.T) {
	c, _ := client(t, "silent")
	before := childrenOf(t, os.Getpid())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := c.Source(ctx, "pipe:src"); done <- err }()
	wait.For(t, "the process runs", func() bool { return len(childrenOf(t, os.Getpid())) > len(before) })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := childrenOf(t, os.Getpid()); len(got) != len(before) {
		t.Errorf("processes %v are left", got)
	}
}

// pidVariable names the file into which hostUntilKilled writes the id of its plugin's parent.
const pidVariable = "WIRE_TEST_READY"

// hostUntilKilled is a host that starts a plugin and is killed.
func hostUntilKilled() {
	exe, _ := os.Executable()
	c := &standalone.Client{Path: exe, Env: append(os.Environ(), roleVariable+"=connector")}
	if _, err := c.Source(context.Background(), "pipe:src"); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Getenv(pidVariable), nil, 0o600); err != nil {
		panic(err)
	}
	select {}
}

func TestPluginDiesWithItsHost(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(t.TempDir(), "ready")
	host := exec.Command(exe)
	host.Env = append(os.Environ(), roleVariable+"=host", pidVariable+"="+ready)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the plugin runs", func() bool { _, err := os.Stat(ready); return err == nil })
	children := childrenOf(t, host.Process.Pid)
	if len(children) != 1 {
		t.Fatalf("the host has children %v, want one", children)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	wait.For(t, "the plugin is gone", func() bool { return !running(children[0]) })
}

func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, f := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
		}
	}
	return children
}

// running reports whether the process exists and is not a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestTeardownEndsTheProcess(t *testing.T) {
	ctx := testContext(t)
	t.Setenv("TMPDIR", t.TempDir())
	c, _ := client(t, "connector")
	before := childrenOf(t, os.Getpid())
	s := openSource(ctx, t, c, map[string]string{"count": "1"})
	if len(childrenOf(t, os.Getpid())) != len(before)+1 {
		t.Fatal("no process was started")
	}
	if err := s.Teardown(ctx); err != nil {
		t.Fatal(err)
	}
	if got := childrenOf(t, os.Getpid()); len(got) != len(before) {
		t.Errorf("processes %v are left", got)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) != 0 {
		t.Errorf("files %v are left", left)
	}
}
