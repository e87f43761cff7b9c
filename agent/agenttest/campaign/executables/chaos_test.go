package executables_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/chaos"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

func client(t *testing.T, start string, env ...string) (*standalone.Client, *wait.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &wait.Buffer{}
	env = append(env, serveVariable+"=1", chaos.StartVariable+"="+start, "GORACE=atexit_sleep_ms=0")
	return &standalone.Client{Path: exe, Env: append(os.Environ(), env...),
		Log: slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))}, out
}

// impatient returns a client with a short timeout for the call that hangs in the given mode.
func impatient(t *testing.T, mode string) *standalone.Client {
	c, _ := client(t, "")
	switch mode {
	case chaos.OpenHang:
		c.CallTimeout = time.Second
	case chaos.Hang, chaos.StopHang, chaos.NeverAck:
		c.StopTimeout = 300 * time.Millisecond
	}
	return c
}

// teardownLimit is the maximum duration of Teardown: short unless Teardown hangs.
func teardownLimit(hangs bool) time.Duration {
	if hangs {
		return time.Second
	}
	return wait.Limit
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	t.Cleanup(cancel)
	return ctx
}

// gone reports whether the process has ended.
func gone(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil && syscall.Kill(pid, 0) != nil || strings.Contains(string(b), ") Z ")
}

// says checks that err contains want, which is "" for no error.
func says(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

func TestStarts(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"slow":         "did not become ready",
		"silent":       "did not become ready",
		"garbage":      `not a connector: it printed "\x1b[31mGIF89a`,
		"endless line": "not a connector",
		"crash":        "no licence",
		"elsewhere":    "not a loopback address",
		"own socket":   "/tmp/somewhere-else",
		"child":        "",
		"stdout flood": "",
		"stderr flood": "",
		"forged logs":  "",
	}
	for _, start := range chaos.Starts() {
		want, ok := tests[start]
		if !ok {
			t.Errorf("no test for %s", start)
		}
		t.Run(start, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			c, _ := client(t, start)
			if start == "silent" || start == "slow" {
				c.StartTimeout = 200 * time.Millisecond
			}
			_, err := c.Specify(testContext(t))
			says(t, start, err, want)
		})
	}
}

// A connector may take long until it is ready.
func TestSlowStart(t *testing.T) {
	load.Parallel(t, load.Agent)
	ready := filepath.Join(t.TempDir(), "ready")
	c, out := client(t, "slow", chaos.GoVariable+"="+ready)
	specified := make(chan error, 1)
	go func() {
		_, err := c.Specify(testContext(t))
		specified <- err
	}()
	wait.For(t, "the connector is about to get ready", func() bool {
		return strings.Contains(out.String(), "chaos waits")
	})
	select {
	case err := <-specified:
		t.Fatalf("specified before it is ready: %v", err)
	default:
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, "Specify", <-specified, "")
}

func TestFloodsAreTaken(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"stdout flood", "stderr flood"} {
		t.Run(start, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			done, begun := filepath.Join(t.TempDir(), "done"), time.Now()
			c, out := client(t, start, chaos.DoneVariable+"="+done)
			s := open(t, c, "", nil)
			wait.For(t, "everything was written", func() bool { _, err := os.Stat(done); return err == nil })
			if got, err := readAll(testContext(t), s, 10); got != "1 2 3 4 5 6 7 8 9 10" {
				t.Errorf("got %s, %v", got, err)
			}
			if err := s.Teardown(testContext(t)); err != nil {
				t.Error(err)
			}
			most := 2<<20 + int(time.Since(begun).Seconds()*(1<<20)) // the log is limited to this much per second
			if n := len(out.String()); n > most || start == "stderr flood" &&
				(n < 1<<20 || !strings.Contains(out.String(), "left out")) {
				t.Errorf("%d bytes of the output are logged", n)
			}
		})
	}
}

func TestLogsAreNotForged(t *testing.T) {
	load.Parallel(t, load.Agent)
	c, out := client(t, "forged logs")
	s := open(t, c, "", nil)
	wait.For(t, "the log arrives", func() bool { return strings.Contains(out.String(), "forged") })
	if err := s.Teardown(testContext(t)); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.ContainsAny(line, "\x1b\x07\r") {
			t.Errorf("control characters in %q", line)
		}
		if strings.Contains(line, "stopped") &&
			(!strings.Contains(line, `"connector_id":"pipe:src"`) || strings.Contains(line, `"component":"agent"`)) {
			t.Errorf("passes for a line of the agent: %s", line)
		}
	}
}

func TestChildrenEnd(t *testing.T) {
	load.Parallel(t, load.Agent)
	for _, mode := range []string{"", chaos.Crash, chaos.TeardownCrash} {
		t.Run(mode, func(t *testing.T) {
			c, out := client(t, "child")
			s := open(t, c, mode, nil)
			found := regexp.MustCompile(`child (\d+)`)
			wait.For(t, "the child runs", func() bool { return found.MatchString(out.String()) })
			pid, _ := strconv.Atoi(found.FindStringSubmatch(out.String())[1])
			if mode == chaos.Crash {
				wait.For(t, "it crashed", func() bool { return gone(s.PID()) })
			}
			_ = s.Teardown(testContext(t))
			wait.For(t, "the child is gone", func() bool { return gone(pid) })
		})
	}
}

func open(t *testing.T, c *standalone.Client, mode string, pos record.Position) *standalone.Source {
	t.Helper()
	s, err := c.Source(testContext(t), "pipe:src")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.Background()) })
	if err := s.Configure(testContext(t), map[string]string{"mode": mode}); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(testContext(t), pos); err != nil {
		t.Fatal(err)
	}
	return s
}

// readAll reads n records, or all up to the end if n is 0, and returns their positions.
func readAll(ctx context.Context, s *standalone.Source, n int) (string, error) {
	var got []string
	for len(got) < n || n == 0 {
		b, err := s.Read(ctx)
		if err != nil {
			return strings.Join(got, " "), err
		}
		for i := range b.Len() {
			got = append(got, string(b.Position(i)))
		}
	}
	return strings.Join(got, " "), nil
}

// A source that breaks returns an error, after the records before it.
func TestSourcesThatBreak(t *testing.T) {
	t.Parallel()
	tests := []struct{ mode, got, want string }{
		{chaos.Crash, "1 2 3 4 5", "chaos at record 6"},
		{chaos.Poison, "1 2 3 4", "chaos at record 5"},
		{chaos.Fail, "1 2 3 4 5", "the database is gone"},
		{chaos.EmptyPosition, "1 2 3 4", "position"},
		{chaos.HugePosition, "1 2 3 4", "position"},
		{chaos.Malformed, "", "cannot read"},
		{chaos.NotUTF8, "1 2 3 4", "pipe:src: cannot take record \"5\": text is not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			c, _ := client(t, "")
			s := open(t, c, tt.mode, nil)
			got, err := readAll(testContext(t), s, 11)
			says(t, "Read", err, tt.want)
			if errors.Is(err, io.EOF) || tt.got != "" && got != tt.got || !strings.HasPrefix("1 2 3 4 5", got) {
				t.Errorf("got %q, %v, want %q", got, err, tt.got)
			}
			_ = s.Teardown(testContext(t))
			if !gone(s.PID()) {
				t.Error("its process is left")
			}
		})
	}
}

func TestPoisonComesAgain(t *testing.T) {
	load.Parallel(t, load.Agent)
	c, _ := client(t, "")
	for range 3 {
		_, err := readAll(testContext(t), open(t, c, chaos.Poison, record.Position("4")), 1)
		says(t, "Read", err, "chaos at record 5")
	}
}

// A source that stops incorrectly ends in time, and the records that it read before are delivered.
func TestSourcesThatStopBadly(t *testing.T) {
	t.Parallel()
	const all = "1 2 3 4 5 6 7 8 9 10"
	for mode, want := range map[string]string{
		"": all, chaos.Hang: "1 2 3 4 5", chaos.StopHang: all, chaos.StopIgnored: all,
		chaos.StopWrong: all, chaos.EndAtStop: all, chaos.Oversized: all,
	} {
		t.Run(mode, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			ctx := testContext(t)
			s := open(t, impatient(t, mode), mode, nil)
			got, err := readAll(ctx, s, strings.Count(want, " ")+1)
			if got != want {
				t.Fatalf("got %q, %v", got, err)
			}
			if err := s.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			if got, err = readAll(ctx, s, 0); !errors.Is(err, io.EOF) || got != "" {
				t.Errorf("after Stop: got %.100q, %v", got, err)
			}
			says(t, "Teardown", s.Teardown(ctx), "")
			if !gone(s.PID()) {
				t.Error("its process is left")
			}
		})
	}
}

// Records after the last position of a source do not count, whichever message reports that position first.
func TestStopWhileReadWaits(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", chaos.StopIgnored, chaos.StopLate} {
		t.Run(mode, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			ctx := testContext(t)
			c, _ := client(t, "")
			s := open(t, c, mode, nil)
			if got, err := readAll(ctx, s, 10); err != nil {
				t.Fatal(got, err)
			}
			var got string
			var err error
			ended, began := make(chan struct{}), time.Now()
			go func() { defer close(ended); got, err = readAll(ctx, s, 0) }()
			if err := s.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			<-ended
			// Sources that keep reading send a record per millisecond until the answer arrives.
			most := 100 + int(time.Since(began)/time.Millisecond)
			if !errors.Is(err, io.EOF) || mode == "" && got != "" || strings.Count(got, " ") > most {
				t.Errorf("after Stop: got %.100q, %v", got, err)
			}
		})
	}
}

// A message above the limit ends the source with an error, unread. The records before it count, and a source that
// recovers resumes after them.
func TestOversizedMessages(t *testing.T) { // alone: it measures the memory
	c, _ := client(t, "")
	c.MaxReceive = 1 << 20
	s := &store{}
	before := allocated()
	for range 3 {
		err := runPipeline(t, plugins{c, c}, wait.Limit, s, chaos.Oversized, "", func() bool { return false })
		says(t, "the run", err, "cannot read from connector pipe:src: a message is too large: received message "+
			"larger than max (8388")
	}
	if n := allocated() - before; n > 20<<20 { // of 24 MiB
		t.Errorf("%d bytes were allocated for messages that were not read", n)
	}
	if n, _ := strconv.Atoi(string(s.saved.Position)); n > 4 {
		t.Errorf("saved position %d", n)
	}
	says(t, "the run", runPipeline(t, plugins{c, c}, wait.Limit, s, "", "", func() bool {
		c, _ := s.Checkpoint(t.Context(), "")
		return string(c.Position) == "10"
	}), "")
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestSamePositionsPass(t *testing.T) {
	load.Parallel(t, load.Agent)
	c, _ := client(t, "")
	if got, err := readAll(testContext(t), open(t, c, chaos.SamePosition, nil), 10); strings.Count(got, "same") != 10 {
		t.Errorf("got %q, %v", got, err)
	}
}

// An unanswered call counts as lost, so it is retried; a refused call is not retried.
func TestCallsThatFail(t *testing.T) {
	load.Parallel(t, load.Agent)
	for mode, want := range map[string]string{chaos.OpenFails: "nothing to open", chaos.OpenHang: "no response within"} {
		s, err := impatient(t, mode).Source(testContext(t), "pipe:src")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Configure(testContext(t), map[string]string{"mode": mode}); err != nil {
			t.Fatal(err)
		}
		err = s.Open(testContext(t), nil)
		says(t, mode, err, want)
		var lost interface{ Lost() bool }
		if got := errors.As(err, &lost) && lost.Lost(); got != (mode == chaos.OpenHang) {
			t.Errorf("%s: counts as lost: %v", mode, got)
		}
		says(t, "Teardown", s.Teardown(testContext(t)), "")
	}
}

func TestTeardownAlwaysEnds(t *testing.T) {
	load.Parallel(t, load.Agent)
	for mode, want := range map[string]string{chaos.TeardownCrash: "chaos in teardown",
		chaos.TeardownHang: "deadline exceeded"} {
		c, _ := client(t, "")
		s := open(t, c, mode, nil)
		ctx, cancel := context.WithTimeout(t.Context(), teardownLimit(mode == chaos.TeardownHang))
		defer cancel()
		says(t, mode, s.Teardown(ctx), want)
		if !gone(s.PID()) {
			t.Error("its process is left")
		}
	}
}

// A destination that ends incorrectly has settled its written records, and its process has ended.
func TestDestinationTeardownAlwaysEnds(t *testing.T) {
	load.Parallel(t, load.Agent)
	for mode, want := range map[string]string{chaos.TeardownCrash: "chaos in teardown",
		chaos.TeardownHang: "deadline exceeded"} {
		c, _ := client(t, "")
		d, err := c.Destination(testContext(t), "pipe:dst")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Configure(testContext(t), map[string]string{"mode": mode}); err != nil {
			t.Fatal(err)
		}
		var written atomic.Int64
		if err := d.Open(testContext(t), func(n int, err error) {
			says(t, "settled", err, "")
			written.Add(int64(n))
		}); err != nil {
			t.Fatal(err)
		}
		if err := d.Write(testContext(t), batch(4)); err != nil {
			t.Fatal(err)
		}
		says(t, "Flush", d.Flush(testContext(t)), "")
		ctx, cancel := context.WithTimeout(t.Context(), teardownLimit(want == "deadline exceeded"))
		defer cancel()
		says(t, mode, d.Teardown(ctx), want)
		if n := written.Load(); n != 4 || !gone(d.PID()) {
			t.Errorf("%d records were settled, the process is gone: %t", n, gone(d.PID()))
		}
	}
}

// destinationsCases are the cases of TestDestinations.
var destinationsCases = []struct {
	mode             string
	written, refused int
	broken           string
}{
	{"", 4, 0, ""},
	{chaos.Refuse, 0, 4, ""},
	{chaos.RefuseSecond, 3, 1, ""},
	{chaos.Crash, 0, 0, "chaos at a batch of 4"},
	{chaos.Fail, 0, 0, "the database is gone"},
	{chaos.FailAfterAck, 2, 0, "the database is gone"},
	{chaos.PartialAck, 2, 0, "ended the stream"},
	{chaos.UnknownAck, 0, 0, "unknown"},
	{chaos.ReverseAck, 0, 0, "instead of"},
	{chaos.DuplicateAck, 1, 0, "instead of"},
	{chaos.SurplusAck, 4, 0, "more records than it received"},
	{chaos.NeverAck, 0, 0, "not acknowledged"},
	{chaos.Hang, 0, 0, "not acknowledged"},
	{chaos.StopHang, 4, 0, ""},
}

// A destination never settles unanswered records, and breaks where it should.
func TestDestinations(t *testing.T) {
	t.Parallel()
	for _, tt := range destinationsCases {
		t.Run(tt.mode, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			ctx := testContext(t)
			d, err := impatient(t, tt.mode).Destination(ctx, "pipe:dst")
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Configure(ctx, map[string]string{"mode": tt.mode}); err != nil {
				t.Fatal(err)
			}
			var f fate
			if err := d.Open(ctx, f.settled); err != nil {
				t.Fatal(err)
			}
			if err := d.Write(ctx, batch(4)); err != nil {
				t.Fatal(err)
			}
			wait.For(t, "it is settled or broken", func() bool {
				written, refused, broken := f.now()
				return written+refused == 4 || broken != nil || tt.broken == "not acknowledged"
			})
			if tt.mode == chaos.SurplusAck {
				wait.For(t, "it broke", func() bool { _, _, broken := f.now(); return broken != nil })
			}
			err = d.Flush(ctx)
			written, refused, broken := f.now()
			if broken != nil {
				err = broken
			}
			if written != tt.written || refused != tt.refused {
				t.Errorf("%d written, %d refused, want %d and %d", written, refused, tt.written, tt.refused)
			}
			says(t, "the end", err, tt.broken)
			_ = d.Teardown(ctx)
			if !gone(d.PID()) {
				t.Error("its process is left")
			}
		})
	}
}

// fate is the outcome of the records written to a destination, and of the destination.
type fate struct {
	mu               sync.Mutex
	written, refused int
	broken           error
}

func (f *fate) settled(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case n == 0:
		f.broken = err
	case err == nil:
		f.written += n
	default:
		f.refused += n
	}
}

func (f *fate) now() (written, refused int, broken error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written, f.refused, f.broken
}

func batch(n int) *record.Batch {
	records := make([]record.Record, n)
	for i := range records {
		records[i] = record.Record{Position: record.Position(strconv.Itoa(i)), Operation: record.OperationCreate,
			After: record.Raw([]byte("x"))}
	}
	return record.NewBatch(records)
}
