package standalone_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/subprocess"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// pidFileVariable names the file with the id of the process that a parentSource leaves behind.
const pidFileVariable = "STANDALONE_TEST_PID"

func init() {
	roles["parent"], roles["orphans"], roles["recorder"], roles["fork"] = serveParent, hostOfOrphans, hostThatRecords,
		serveFork
}

// parentSource starts a process that leaves its session and loses its parent.
type parentSource struct{ countSource }

func (s *parentSource) Open(context.Context, record.Position) error {
	return exec.Command("setsid", "sh", "-c", `sleep 1000 & echo $! > "$`+pidFileVariable+`"`).Run()
}

func serveParent() {
	wire.Serve(sdk.Connector{Name: "parent", Version: "v1.0.0", NewSource: func() sdk.Source {
		return &parentSource{}
	}})
}

// hostOfOrphans runs two parentSources and tears down the second one first. It prints whether the orphan of the first
// lives exactly as long as its connector. A command that the host runs in the meantime is not affected.
func hostOfOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { standalone.Prepare("", slog.New(slog.DiscardHandler))(ctx); close(done) }()
	own := exec.Command("sleep", "1000")
	if err := subprocess.Start(own); err != nil {
		panic(err)
	}
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
	teardown(other, ended) // takes two passes over all orphans: one kills, one reaps
	fmt.Print(running(orphan), " ")
	teardown(s, orphan)
	fmt.Println(unix.Kill(orphan, 0))
	fmt.Println(own.Process.Signal(unix.SIGTERM), subprocess.Wait(own))
	stop()
	<-done
}

// openParent opens a parentSource, and returns it with the process that it left behind.
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

// A process that a connector leaves behind ends with the connector, even outside its process group and session.
func TestOrphansEndWithTheirConnector(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(exe)
	host.Env = append(os.Environ(), roleVariable+"=orphans", pidFileVariable+"="+filepath.Join(t.TempDir(), "pid"))
	host.Stderr = os.Stderr
	out, err := host.Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != "true no such process\n<nil> signal: terminated" {
		t.Errorf("while the connector ran, and after: %q, %v", got, err)
	}
}

// recordVariable names the file in which a hostThatRecords lists the processes started by its connectors.
const recordVariable = "STANDALONE_TEST_RECORD"

// forkSource starts processes in sessions of their own: an unchanged one, one without an environment, and one with a
// changed start. When a file with the name of the record and the suffix .late exists, it starts one more process
// without its environment, its session or a parent, and stores the id in that file.
type forkSource struct{ countSource }

func (s *forkSource) Open(context.Context, record.Position) error {
	for _, args := range [][]string{{"sleep", "1000"}, {"env", "-i", "sleep", "1001"},
		{"env", "-i", "sh", "-c", "setsid sleep 1002 & sleep 1003"}} {
		if err := exec.Command("setsid", args...).Start(); err != nil {
			return err
		}
	}
	late := os.Getenv(recordVariable) + ".late"
	go func() {
		wait.Until(context.Background(), func() bool { _, err := os.Stat(late); return err == nil })
		_ = exec.Command("env", "-i", "setsid", "sh", "-c", `setsid sleep 1005 & echo $! > "$0"`, late).Run()
	}()
	return nil
}

func serveFork() {
	wire.Serve(sdk.Connector{Name: "fork", Version: "v1.0.0", NewSource: func() sdk.Source { return &forkSource{} }})
}

// hostThatRecords runs a forkSource until it is killed.
func hostThatRecords() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	go standalone.PrepareEvery(10*time.Millisecond, os.Getenv(recordVariable),
		slog.New(slog.DiscardHandler))(context.Background())
	exe, _ := os.Executable()
	c := &standalone.Client{Path: exe, Env: append(os.Environ(), roleVariable+"=fork")}
	s, err := c.Source(context.Background(), "pipe:src")
	if err == nil {
		err = errors.Join(s.Configure(context.Background(), nil), s.Open(context.Background(), nil))
	}
	fmt.Println(err)
	select {}
}

// The next host ends the processes started by connectors of a killed host, regardless of their environment, session and
// parent.
func TestWhatAKilledHostLeaves(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "processes")
	host := exec.Command(exe)
	host.Env = append(os.Environ(), roleVariable+"=recorder", recordVariable+"="+file)
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	recorded := func() (all []int) {
		content, _ := os.ReadFile(file)
		var k struct{ Processes map[int]string }
		_ = json.Unmarshal(content, &k)
		for pid := range k.Processes {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line),
				"sleep\x00100") {
				all = append(all, pid)
			}
		}
		return all
	}
	wait.For(t, "what was started is recorded", func() bool { return len(recorded()) == 4 })
	left := recorded()
	t.Cleanup(func() {
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	_ = host.Process.Signal(unix.SIGSTOP) // so that it does not record later processes
	if err := os.WriteFile(file+".late", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "a process is started that is not recorded", func() bool {
		content, _ := os.ReadFile(file + ".late")
		late, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err == nil {
			left = append(left, late)
		}
		return err == nil
	})
	_ = host.Process.Kill()
	_ = host.Wait()
	if late := left[len(left)-1]; !running(late) {
		t.Error("the process that is not recorded has ended, so that there is nothing to find")
	}
	if !slices.ContainsFunc(left, running) {
		t.Error("nothing is left, so that there is nothing to end")
	}
	bystander := exec.Command("sleep", "1004")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	end := standalone.Prepare(file, slog.New(slog.DiscardHandler))
	go func() { end(ctx); close(done) }()
	wait.For(t, "all are ended", func() bool { return !slices.ContainsFunc(left, running) }, func() string {
		return fmt.Sprint(slices.DeleteFunc(slices.Clone(left), func(pid int) bool { return !running(pid) }), " run")
	})
	stop()
	<-done
	if !running(bystander.Process.Pid) {
		t.Error("another process was ended, too")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is still there")
	}
}
