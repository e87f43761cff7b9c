package standalone_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/standalone/orphans"
	"github.com/conduit-agent/conduit/plugins/wire"
	"golang.org/x/sys/unix"
)

// pidFileVariable names the file for the id of the process that a parentSource leaves behind.
const pidFileVariable = "STANDALONE_TEST_PID"

func init() { roles["parent"], roles["orphans"] = serveParent, hostOfOrphans }

// parentSource starts a process that leaves its session and loses its parent.
type parentSource struct{ countSource }

func (s *parentSource) Open(context.Context, record.Position) error {
	return exec.Command("setsid", "sh", "-c", `sleep 1000 & echo $! > "$`+pidFileVariable+`"`).Run()
}

func serveParent() {
	wire.Serve(sdk.Connector{Name: "parent", Version: "v1.0.0", NewSource: func() sdk.Source { return &parentSource{} }})
}

// hostOfOrphans runs two parentSources, of which the second ends first, and says whether the process
// of the first lives while its connector does, and no longer.
func hostOfOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { orphans.End(ctx); close(done) }()
	s, orphan := openParent(ctx, "first")
	other, ended := openParent(ctx, "second")
	teardown := func(s *standalone.Source, orphan int) {
		if err := s.Teardown(ctx); err != nil {
			panic(err)
		}
		limited, cancel := context.WithTimeout(ctx, wait.Limit)
		defer cancel()
		wait.Until(limited, func() bool { return unix.Kill(orphan, 0) != nil })
	}
	teardown(other, ended) // it takes two passes over all orphans: one that kills and one that reaps
	fmt.Print(running(orphan), " ")
	teardown(s, orphan)
	fmt.Println(unix.Kill(orphan, 0))
	stop()
	<-done
}

// openParent opens a parentSource, and returns it and the process that it left behind.
func openParent(ctx context.Context, name string) (*standalone.Source, int) {
	exe, _ := os.Executable()
	pidFile := os.Getenv(pidFileVariable) + name
	c := &standalone.Client{Path: exe, Env: append(os.Environ(), roleVariable+"=parent", pidFileVariable+"="+pidFile)}
	s, err := c.Source(ctx, "pipe:src")
	if err != nil {
		panic(err)
	}
	if err := errors.Join(s.Configure(ctx, nil), s.Open(ctx, nil)); err != nil {
		panic(err)
	}
	b, _ := os.ReadFile(pidFile)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		panic(err)
	}
	return s, pid
}

// What a connector leaves behind ends with it, even out of its process group and session.
func TestOrphansEndWithTheirConnector(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		server.Missing(t, "%v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(exe)
	host.Env = append(os.Environ(), roleVariable+"=orphans", pidFileVariable+"="+filepath.Join(t.TempDir(), "pid"))
	host.Stderr = os.Stderr
	out, err := host.Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != "true no such process" {
		t.Errorf("while the connector ran, and after: %q, %v", got, err)
	}
}
