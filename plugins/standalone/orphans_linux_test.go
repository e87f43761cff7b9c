package standalone_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
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

// hostOfOrphans runs a parentSource and says whether the process lives while the connector
// does, and no longer.
func hostOfOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { standalone.EndOrphans(ctx); close(done) }()
	exe, _ := os.Executable()
	c := &standalone.Client{Path: exe, Env: append(os.Environ(), roleVariable+"=parent")}
	s, err := c.Source(ctx, "pipe:src")
	if err != nil {
		panic(err)
	}
	if err := s.Configure(ctx, nil); err != nil {
		panic(err)
	}
	if err := s.Open(ctx, nil); err != nil {
		panic(err)
	}
	_ = exec.Command("true").Run() // a signal that a child has ended
	time.Sleep(100 * time.Millisecond)
	b, _ := os.ReadFile(os.Getenv(pidFileVariable))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	fmt.Print(running(pid), " ")
	if err := s.Teardown(ctx); err != nil {
		panic(err)
	}
	for range 1000 {
		if unix.Kill(pid, 0) != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println(unix.Kill(pid, 0))
	stop()
	<-done
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
