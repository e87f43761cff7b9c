package spool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/spool"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// as returns a context for a connector with this id.
func as(t *testing.T, id string) context.Context {
	return sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: id, Logger: slog.New(slog.DiscardHandler)})
}

func source(t *testing.T, id string, pos record.Position, settings map[string]string) *spool.Source {
	t.Helper()
	s := &spool.Source{}
	if err := errors.Join(s.Configure(as(t, id), settings), s.Open(as(t, id), pos)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.Background()) })
	return s
}

func destination(t *testing.T, settings map[string]string) *spool.Destination {
	t.Helper()
	d, ctx := &spool.Destination{}, as(t, "in:spool")
	if err := errors.Join(d.Configure(ctx, settings), d.Open(ctx)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.Background()) })
	return d
}

// write writes the records with the numbers from (inclusive) to (exclusive).
func write(t *testing.T, d *spool.Destination, from, to int) {
	t.Helper()
	var records []record.Record
	for ; from < to; from++ {
		records = append(records, record.Record{Operation: record.OperationCreate,
			After: record.Raw(strconv.AppendInt(nil, int64(from), 10))})
	}
	if n, err := d.Write(t.Context(), records); n != len(records) || err != nil {
		t.Fatalf("wrote %d of %d records: %v", n, len(records), err)
	}
}

// numbers reads and acknowledges n records, and returns their numbers and the last position.
func numbers(t *testing.T, s *spool.Source, n int) (all []int, pos record.Position) {
	t.Helper()
	for len(all) < n {
		records, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var read []record.Position
		for _, r := range records {
			all, pos = append(all, numberOf(t, r)), r.Position
			read = append(read, pos)
		}
		if err := s.Ack(t.Context(), read); err != nil {
			t.Fatal(err)
		}
	}
	return all, pos
}

func numberOf(t *testing.T, r record.Record) int {
	b, _ := r.After.Raw()
	n, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestReadsOnFromPosition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	a := source(t, "a:spool", nil, map[string]string{"path": path})
	d := destination(t, map[string]string{"path": path})
	write(t, d, 0, 2500)
	got, pos := numbers(t, a, 1000)
	if fmt.Sprint(got[0], got[999]) != "0 999" {
		t.Errorf("read %d to %d", got[0], got[999])
	}
	again := source(t, "a:spool", pos, map[string]string{"path": path})
	if rest, _ := numbers(t, again, 1500); rest[0] != len(got) || rest[1499] != len(got)+1499 {
		t.Errorf("read %d to %d behind %d", rest[0], rest[len(rest)-1], len(got)-1)
	}
	for _, bad := range []string{"x", "1:", "1:2,", "1:2,3"} {
		if err := (&spool.Source{}).Open(t.Context(), record.Position(bad)); err == nil {
			t.Errorf("a source opened at position %q", bad)
		}
	}
}

// New records come first, older records fill the pauses, and a position includes the unread ranges.
func TestNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "spool")
		settings := map[string]string{"path": path, "order": "newest-first"}
		d := destination(t, settingsOf(path))
		write(t, d, 0, 500)
		time.Sleep(time.Minute)
		write(t, d, 500, 510)
		s := source(t, "a:spool", nil, settings)
		seen := map[int]bool{}
		backlog, _ := numbers(t, s, 30) // the gap is read in order
		write(t, d, 1000, 1005)
		first, pos := numbers(t, s, 5)
		if first[0] != 1000 || len(first) != 5 {
			t.Errorf("read %v, want the records that just came", first)
		}
		for _, n := range append(backlog, first...) {
			seen[n] = true
		}
		s = source(t, "a:spool", pos, settings)
		time.Sleep(time.Minute)
		write(t, d, 1005, 1010)
		rest, _ := numbers(t, s, 520-len(seen))
		if rest[0] != 1005 {
			t.Errorf("read %d first, want 1005", rest[0])
		}
		for _, n := range rest {
			if seen[n] {
				t.Fatalf("read %d again", n)
			}
			seen[n] = true
		}
		if len(seen) != 520 {
			t.Errorf("read %d records, want 520", len(seen))
		}
	})
}

func settingsOf(path string) map[string]string { return map[string]string{"path": path} }

// While a slow consumer drains a backlog, no new record waits for a second, and the backlog does not starve.
func TestBacklogDoesNotDelayNewRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const backlog, perRecord, seconds = 20_000, time.Millisecond, 10
		path := filepath.Join(t.TempDir(), "spool")
		d := destination(t, settingsOf(path))
		write(t, d, 0, backlog)
		time.Sleep(time.Minute)
		s := source(t, "a:spool", nil, map[string]string{"path": path, "order": "newest-first"})
		ctx, cancel := context.WithCancel(t.Context())
		queue := make(chan record.Record, 8192) // records in flight in a pipeline
		var all sync.WaitGroup
		all.Go(func() {
			defer close(queue)
			for {
				records, err := s.Read(ctx)
				if err != nil {
					return
				}
				for _, r := range records {
					queue <- r
				}
			}
		})
		var mu sync.Mutex
		written := map[int]time.Time{}
		drained, latest := 0, time.Duration(0)
		all.Go(func() {
			for r := range queue {
				time.Sleep(perRecord)
				mu.Lock()
				if at, ok := written[numberOf(t, r)]; ok {
					latest = max(latest, time.Since(at))
				} else {
					drained++
				}
				mu.Unlock()
				if err := s.Ack(t.Context(), []record.Position{r.Position}); err != nil {
					t.Error(err)
				}
			}
		})
		for n := range seconds * 10 {
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			written[backlog+n] = time.Now()
			mu.Unlock()
			write(t, d, backlog+n, backlog+n+1)
		}
		cancel()
		all.Wait()
		t.Logf("new records took %v at most, and %d of the backlog passed in %d s", latest, drained, seconds)
		if latest >= time.Second || latest == 0 {
			t.Errorf("a new record took %v, want less than a second", latest)
		}
		if could := int(seconds * time.Second / perRecord); drained < could*8/10 {
			t.Errorf("%d records of the backlog passed, want most of %d", drained, could)
		}
	})
}

// A hybrid spool with a fast reader writes nothing to disk, and acknowledges records only after they are read or
// written.
func TestHybrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "spool")
		s := source(t, "a:spool", nil, settingsOf(path))
		d := destination(t, map[string]string{"path": path, "mode": "hybrid", "hybrid.delay": "1s"})
		bytes := func() (n int64) {
			for _, f := range spoolFiles(t, path) {
				n += f
			}
			return n
		}
		write(t, d, 0, 1) // the first record is written: the reader has not proved to be fast yet
		_, _ = numbers(t, s, 1)
		before := bytes()
		for n := 1; n < 100; n++ {
			var done sync.WaitGroup
			start := time.Now()
			done.Go(func() { write(t, d, n, n+1) })
			records, err := s.Read(t.Context())
			if err != nil || len(records) != 1 || numberOf(t, records[0]) != n {
				t.Fatalf("read %d records: %v, want the record %d", len(records), err, n)
			}
			time.Sleep(100 * time.Millisecond)
			if err := s.Ack(t.Context(), []record.Position{records[0].Position}); err != nil {
				t.Fatal(err)
			}
			done.Wait()
			if took := time.Since(start); took != 100*time.Millisecond {
				t.Fatalf("acknowledged after %v, want when the reader did after 100ms", took)
			}
		}
		if after := bytes(); after != before {
			t.Errorf("%d bytes were written though the reader kept up", after-before)
		}
		start := time.Now()
		write(t, d, 100, 101) // without a reader
		if took := time.Since(start); took != time.Second || bytes() == before {
			t.Errorf("acknowledged after %v with %d bytes written, want after 1s when it is on the disk", took,
				bytes()-before)
		}
		start = time.Now()
		write(t, d, 101, 102)
		if took := time.Since(start); took != 0 {
			t.Errorf("acknowledged after %v although the reader is behind, want at once", took)
		}
		if got, _ := numbers(t, s, 2); fmt.Sprint(got) != "[100 101]" {
			t.Errorf("read %v", got)
		}
	})
}

// spoolFiles returns the sizes of the segments.
func spoolFiles(t *testing.T, dir string) (sizes []int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	return sizes
}

// The progress of the source includes dropped records and the number of unread records.
func TestProgress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	d := destination(t, map[string]string{"path": path, "limit.bytes": "1000000", "full": "drop-newest"})
	s := source(t, "a:spool", nil, settingsOf(path))
	big := record.Record{After: record.Raw(make([]byte, 100_000))}
	for range 20 {
		if n, err := d.Write(t.Context(), []record.Record{big}); n != 1 || err != nil {
			t.Fatalf("wrote %d records: %v", n, err)
		}
	}
	report := s.Progress()
	if *report.Records != 9 || report.Warning != "11 records were dropped because the spool was full" {
		t.Errorf("%d records behind, and the warning %q", *report.Records, report.Warning)
	}
	if text := fmt.Sprint(report.Skipped); !strings.Contains(text,
		"records that were dropped 11, because the spool was full") {
		t.Errorf("left out: %s", text)
	}
}

// A full spool that drops records with each write logs their number every ten seconds and when it is closed. The logged
// numbers include every dropped record.
func TestDropsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log wait.Buffer
		d, ctx := &spool.Destination{}, sdk.WithEnv(t.Context(),
			&sdk.Env{ConnectorID: "in:spool", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settings := map[string]string{"path": filepath.Join(t.TempDir(), "spool"), "limit.bytes": "1000000",
			"full": "drop-newest"}
		if err := errors.Join(d.Configure(ctx, settings), d.Open(ctx)); err != nil {
			t.Fatal(err)
		}
		write := func(n int) {
			for range n {
				if _, err := d.Write(ctx, []record.Record{{After: record.Raw(make([]byte, 100_000))}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(20) // 9 records fit
		time.Sleep(10 * time.Second)
		write(5)
		if err := d.Teardown(ctx); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(log.String()) {
			if _, counts, ok := strings.Cut(line, "which="); ok {
				lines = append(lines, strings.TrimSpace(counts))
			}
		}
		if got := strings.Join(lines, "; "); got != "newest records=1 dropped=1; newest records=11 dropped=12; "+
			"newest records=4 dropped=16" {
			t.Errorf("logged %s", got)
		}
	})
}

// A link that replaces the directory after the check of the settings leads nowhere, neither when the spool is opened
// nor when its reader is removed.
func TestLinksAfterTheCheck(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	allowed, secret := filepath.Join(root, "allowed"), filepath.Join(root, "secret")
	settings := map[string]string{"path": allowed}
	swapped := false // names are checked against their earlier targets
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: "p:in", Logger: slog.New(slog.DiscardHandler),
		AllowPath: func(path string) error {
			if path != allowed || swapped {
				return errors.New("not allowed")
			}
			return nil
		}})
	s, d, running := &spool.Source{}, &spool.Destination{}, &spool.Destination{}
	if err := errors.Join(s.Configure(ctx, settings), d.Configure(ctx, settings), running.Configure(ctx, settings),
		running.Open(ctx)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = running.Teardown(ctx) }()
	if err := errors.Join(os.Mkdir(secret, 0o755), os.Rename(allowed, filepath.Join(root, "away")),
		os.Symlink(secret, allowed)); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(ctx, nil); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("the source opens it: %v", err)
	}
	if err := d.Open(ctx); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("the destination opens it: %v", err)
	}
	if err := s.LifecycleOnDeleted(ctx, settings); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("a source that is deleted opens it: %v", err)
	}
	if n, err := running.Write(ctx, []record.Record{{After: record.Raw([]byte("x"))}}); n != 1 || err != nil {
		t.Errorf("a destination that is open wrote %d records: %v", n, err)
	}
	swapped = true
	if err := s.LifecycleOnDeleted(ctx, settings); err != nil {
		t.Errorf("a source cannot be deleted whose spool is not allowed any more: %v", err)
	}
	if entries, err := os.ReadDir(secret); err != nil || len(entries) > 0 {
		t.Errorf("the other directory has %v, %v", entries, err)
	}
}
