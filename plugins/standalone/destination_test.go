package standalone_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

// results collects the results of a destination.
type results struct {
	mu     sync.Mutex
	n      int
	failed []string
	broken error
}

func (r *results) settled(n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n == 0 {
		r.broken = err
	}
	r.n += n
	if err != nil && n > 0 {
		r.failed = append(r.failed, fmt.Sprintf("%d: %v", r.n, err))
	}
}

func (r *results) get() (int, []string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, r.failed, r.broken
}

func openDestination(
	ctx context.Context, t *testing.T, c *standalone.Client, settings map[string]string,
) (*standalone.Destination, *results) {
	t.Helper()
	d, err := c.Destination(ctx, "pipe:dst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(ctx)) })
	if err := d.Configure(ctx, settings); err != nil {
		t.Fatal(err)
	}
	r := &results{}
	if err := d.Open(ctx, r.settled); err != nil {
		t.Fatal(err)
	}
	return d, r
}

func batch(contents ...string) *record.Batch {
	records := make([]record.Record, len(contents))
	for i, s := range contents {
		records[i] = numbered(i+1, false)
		records[i].After = record.Raw([]byte(s))
	}
	return record.NewBatch(records)
}

// encodedBatch returns b as received from another process.
func encodedBatch(t *testing.T, b *record.Batch) *record.Batch {
	t.Helper()
	buf, err := b.AppendWire(nil, 0, b.Len())
	if err != nil {
		t.Fatal(err)
	}
	if b, err = record.NewEncodedBatch(buf); err != nil {
		t.Fatal(err)
	}
	return b
}

// Flush waits for a record until its result has been passed on.
func TestFlushWaitsForResults(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	d, err := c.Destination(ctx, "pipe:dst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(ctx)) })
	err = d.Configure(ctx, map[string]string{"path": filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	r := &results{}
	err = d.Open(ctx, func(n int, err error) {
		if left := standalone.Outstanding(d); left < n {
			t.Errorf("Flush waits for %d records while the results of %d are passed on", left, n)
		}
		r.settled(n, err)
	})
	if err == nil {
		err = d.Write(ctx, encodedBatch(t, batch("a", "bad", "c", strings.Repeat("x", 5<<20), "e")))
	}
	if err == nil {
		err = d.Flush(ctx)
	}
	if n, failed, _ := r.get(); err != nil || n != 5 || len(failed) != 2 {
		t.Errorf("%d records are settled, %q were refused: %v", n, failed, err)
	}
}

func TestDestination(t *testing.T) {
	huge := strings.Repeat("x", 5<<20)
	tests := []struct {
		name     string
		contents []string
		settings map[string]string
		written  string
		failed   []string
	}{
		{"all written", []string{"a", "b", "c"}, nil, "1 2 3", nil},
		{"some refused", []string{"bad", "b", "bad", "bad", "e"}, nil, "2 5",
			[]string{"1: record 1 is bad", "3: record 3 is bad", "4: record 4 is bad"}},
		{"too large", []string{"a", huge, "c", huge}, nil, "1 3",
			[]string{"2: the record has 5242912 bytes, more than the 4194304 that the plugin accepts",
				"4: the record has 5242912 bytes, more than the 4194304 that the plugin accepts"}},
		{"several messages", []string{strings.Repeat("x", 3<<20), strings.Repeat("y", 3<<20), "c", "d"}, nil, "1 2 3 4",
			nil},
		{"held back", []string{"a", "b", "bad", "d", "e"}, map[string]string{"sdk.batch.size": "4"}, "1 2 4 5",
			[]string{"3: record 3 is bad"}},
		{"held back, even", []string{"a", "b", "c", "d"}, map[string]string{"sdk.batch.size": "2"}, "1 2 3 4", nil},
	}
	for _, role := range []string{"connector", "version1"} {
		for _, tt := range tests {
			if role == "version1" && tt.settings != nil {
				continue
			}
			t.Run(role+"/"+tt.name, func(t *testing.T) {
				ctx := testContext(t)
				c, _ := client(t, role)
				settings := map[string]string{"path": filepath.Join(t.TempDir(), "out")}
				for k, v := range tt.settings {
					settings[k] = v
				}
				d, r := openDestination(ctx, t, c, settings)
				if err := d.Write(ctx, encodedBatch(t, batch(tt.contents...))); err != nil {
					t.Fatal(err)
				}
				if err := d.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				n, failed, broken := r.get()
				if n != len(tt.contents) || strings.Join(failed, "; ") != strings.Join(tt.failed, "; ") ||
					broken != nil {
					t.Errorf("settled %d, %q, %v, want %d, %q", n, failed, broken, len(tt.contents), tt.failed)
				}
				if got := lines(t, settings["path"]); got != tt.written {
					t.Errorf("written %s, want %s", got, tt.written)
				}
				if err := d.Teardown(ctx); err != nil {
					t.Error(err)
				}
				if _, _, broken := r.get(); broken != nil {
					t.Errorf("after Teardown: %v", broken)
				}
			})
		}
	}
}

func TestDestinationKeepsTheOrderOfManyBatches(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	path := filepath.Join(t.TempDir(), "out")
	d, r := openDestination(ctx, t, c, map[string]string{"path": path})
	for i := range 200 {
		records := make([]record.Record, 5)
		for j := range records {
			records[j] = numbered(5*i+j+1, false)
		}
		if err := d.Write(ctx, record.NewBatch(records)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n, failed, _ := r.get(); n != 1000 || failed != nil {
		t.Errorf("settled %d, %q", n, failed)
	}
	if got := lines(t, path); got != sequence(1, 1000) {
		t.Error("records are missing or out of order")
	}
}

func TestDestinationRefusesUnencodableRecords(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	path := filepath.Join(t.TempDir(), "out")
	d, r := openDestination(ctx, t, c, map[string]string{"path": path})
	b := batch("a", "b", "c")
	records, err := b.Records()
	if err != nil {
		t.Fatal(err)
	}
	nested := any("text")
	for range 10_000 {
		nested = []any{nested}
	}
	records[1].After = record.Structured(map[string]any{"nested": nested})
	if err := d.Write(ctx, b); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	n, failed, _ := r.get()
	if n != 3 || len(failed) != 1 || !strings.HasPrefix(failed[0], "2: ") ||
		!strings.Contains(failed[0], "nested deeper") {
		t.Errorf("settled %d, %q", n, failed)
	}
	if got := lines(t, path); got != "1 3" {
		t.Errorf("written %s", got)
	}
}

func TestCrashIsReported(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	d, r := openDestination(ctx, t, c, map[string]string{"path": filepath.Join(t.TempDir(), "out")})
	if err := d.Write(ctx, batch("a", "crash")); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the crash is reported", func() bool { _, _, broken := r.get(); return broken != nil })
	_, _, broken := r.get()
	for _, want := range []string{"pipe:dst", "exit status 2", "out of ideas"} {
		if !strings.Contains(broken.Error(), want) {
			t.Errorf("got %v, want it to name %q", broken, want)
		}
	}
	if err := d.Write(ctx, batch("b")); err == nil {
		t.Error("Write after the crash: want an error")
	}
	if err := d.Flush(ctx); err == nil {
		t.Error("Flush after the crash: want an error")
	}
	if err := d.Teardown(ctx); err != nil {
		t.Errorf("Teardown repeats the crash: %v", err)
	}
}

func TestUnavailableIsNoRefusal(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]string{
		"at once": {}, "gathered": {"sdk.batch.size": "3"}, "late": {"sdk.batch.delay": "1ms"},
		"flushed": {"sdk.batch.size": "10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c, _ := client(t, "connector")
			standalone.SetEndTimeouts(c, time.Hour) // the host does not wait for the end of a plugin that answers
			settings["path"] = filepath.Join(t.TempDir(), "out")
			d, r := openDestination(ctx, t, c, settings)
			if err := d.Write(ctx, batch("a", "full", "c")); err != nil {
				t.Fatal(err)
			}
			var err error
			if name == "flushed" {
				err = d.Flush(ctx)
			} else {
				wait.For(t, "it is broken", func() bool { _, _, err = r.get(); return err != nil })
			}
			var lost interface{ Lost() bool }
			if !errors.As(err, &lost) || !lost.Lost() || !strings.Contains(err.Error(), "disk full") {
				t.Errorf("got error %v", err)
			}
			if n, failed, _ := r.get(); n != 1 || failed != nil {
				t.Errorf("settled %d, %q, want only the first record", n, failed)
			}
		})
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	d, err := c.Destination(ctx, "pipe:dst")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Configure(ctx, map[string]string{"path": "/does/not/exist"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(ctx, func(int, error) {}); err == nil || !strings.Contains(err.Error(), os.ErrNotExist.Error()) &&
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	if err := d.LifecycleOnDeleted(ctx, nil); err == nil || !strings.Contains(err.Error(), "nothing to delete") {
		t.Errorf("got %v", err)
	}
	if err := d.Teardown(ctx); err != nil {
		t.Error(err)
	}
}

// Refusals by the host and answers of the plugin arrive in the order of the records, even if both are ready at once.
func TestRefusalsKeepTheirOrder(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	c.MaxMessage = 1000
	path := filepath.Join(t.TempDir(), "out")
	d, err := c.Destination(ctx, "pipe:dst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(ctx)) })
	if err := d.Configure(ctx, map[string]string{"path": path}); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	var r results
	if err := d.Open(ctx, func(n int, err error) {
		if err == nil {
			<-gate
		}
		r.settled(n, err)
	}); err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		if err := d.Write(ctx, batch("a", strings.Repeat("x", 2000), "c")); err != nil {
			t.Fatal(err)
		}
		wait.For(t, "all is written", func() bool {
			b, err := os.ReadFile(path)
			return err == nil && len(strings.Fields(string(b))) == 2*round+2
		})
		gate <- struct{}{}
		gate <- struct{}{}
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	n, failed, broken := r.get()
	if n != 30 || len(failed) != 10 || broken != nil || !strings.HasPrefix(failed[9], "29: ") {
		t.Errorf("settled %d, %q, %v", n, failed, broken)
	}
}
