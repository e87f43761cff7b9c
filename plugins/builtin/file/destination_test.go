package file_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

func tryDestination(t testing.TB, path string, settings ...string) (sdk.Destination, error) {
	t.Helper()
	d := file.Connector(zstd.Codec{}).NewDestination()
	if err := d.Configure(t.Context(), settingsOf(path, settings)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Teardown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d, d.Open(t.Context())
}

func destination(t testing.TB, path string, settings ...string) sdk.Destination {
	t.Helper()
	d, err := tryDestination(t, path, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func someRecords(first, n, size int) []record.Record {
	records := make([]record.Record, n)
	for i := range records {
		records[i] = record.Record{
			Position:  record.Position(strconv.Itoa(first + i)),
			Operation: record.OperationCreate,
			After:     record.Structured(map[string]any{"n": first + i, "fill": strings.Repeat("x", size)}),
		}
	}
	return records
}

func encode(t testing.TB, records []record.Record) string {
	t.Helper()
	var text []byte
	for i := range records {
		var err error
		if text, err = record.AppendJSON(text, &records[i]); err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
	}
	return string(text)
}

func mustWrite(t testing.TB, d sdk.Destination, records []record.Record) {
	t.Helper()
	if n, err := d.Write(t.Context(), records); n != len(records) || err != nil {
		t.Fatalf("wrote %d of %d records: %v", n, len(records), err)
	}
}

func wantContent(t testing.TB, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatalf("got %d bytes, want %d: %.300q", len(got), len(want), got)
	}
}

func TestDestinationAppends(t *testing.T) {
	for _, fsync := range []string{"false", "true"} {
		path := newPath(t)
		first, second := someRecords(1, 3, 5), someRecords(4, 2, 5)
		mustWrite(t, destination(t, path, "fsync", fsync), first)
		d := destination(t, path, "fsync", fsync)
		mustWrite(t, d, second[:1])
		mustWrite(t, d, second[1:])
		mustWrite(t, d, nil)
		wantContent(t, path, encode(t, first)+encode(t, second))
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&^0o644 != 0 {
			t.Errorf("got mode %v, %v", info.Mode(), err)
		}
	}
}

func TestDestinationLargeBatches(t *testing.T) {
	path := newPath(t)
	records := someRecords(1, 50, 100<<10)
	want := encode(t, records)
	mustWrite(t, destination(t, path), records)
	wantContent(t, path, want)
}

func TestDestinationEndsTornLine(t *testing.T) {
	path := newPath(t)
	write(t, path, "whole\nto")
	d := destination(t, path)
	wantContent(t, path, "whole\nto") // stays until there is something to write
	records := someRecords(1, 2, 0)
	mustWrite(t, d, records[:1])
	mustWrite(t, d, records[1:])
	wantContent(t, path, "whole\nto\n"+encode(t, records))
}

func TestDestinationRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "no", "file"): "the directory " + filepath.Join(dir, "no") + " does not exist",
		dir:                              "is a directory",
		pipe:                             "cannot open the file to write to",
	} {
		if _, err := tryDestination(t, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	if _, err := tryDestination(t, filepath.Join(dir, "no", "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestDestinationFullDisk(t *testing.T) {
	d := destination(t, "/dev/full")
	n, err := d.Write(t.Context(), someRecords(1, 3, 0))
	if n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %d, %v", n, err)
	}
	wantUnavailable(t, err)
}

// wantUnavailable checks that err is not the fault of a record.
func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	var lost interface{ Lost() bool }
	if !errors.As(err, &lost) || !lost.Lost() {
		t.Errorf("a record is refused: %v", err)
	}
}

// alone runs the test again in another process, and reports whether this is that process. The limits of a process apply
// to all its tests, and to the log of package testing.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv("FILE_TEST_ALONE") == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "FILE_TEST_ALONE="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("%v: %s", err, out)
	}
	return false
}

// limitFileSize makes writes beyond size fail until the test ends. The test must be alone.
func limitFileSize(t *testing.T, size uint64) (lift func()) {
	t.Helper()
	if os.Getenv("FILE_TEST_ALONE") == "" {
		t.Fatal("the limit would be that of other tests too")
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	lift = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(lift)
	return lift
}

func TestDestinationTakesBackShortWrite(t *testing.T) {
	if !alone(t) {
		return
	}
	path := newPath(t)
	records := someRecords(1, 10, 100)
	want := encode(t, records)
	d := destination(t, path)
	mustWrite(t, d, records[:1])
	lift := limitFileSize(t, 500) // in the middle of the fourth record
	n, err := d.Write(t.Context(), records[1:])
	lift()
	if n != 0 || err == nil {
		t.Fatalf("got %d, %v", n, err)
	}
	wantUnavailable(t, err)
	wantContent(t, path, encode(t, records[:1]))
	mustWrite(t, d, records[1:])
	wantContent(t, path, want)
}

func TestDestinationKeepsForeignContent(t *testing.T) {
	if !alone(t) {
		return
	}
	path := newPath(t)
	records := someRecords(1, 10, 100)
	d := destination(t, path)
	write(t, path, "other\n")
	lift := limitFileSize(t, 300)
	_, err := d.Write(t.Context(), records)
	lift()
	if err == nil {
		t.Fatal("got no error")
	}
	mustWrite(t, d, records)
	all := encode(t, records)
	wantContent(t, path, "other\n"+all[:300-len("other\n")]+"\n"+all)
}

func TestDestinationFollowsRotation(t *testing.T) {
	path := newPath(t)
	records := someRecords(1, 4, 0)
	synctest.Test(t, func(t *testing.T) {
		d := destination(t, path)
		mustWrite(t, d, records[:1])
		rename(t, path, path+".1")
		mustWrite(t, d, records[1:2]) // the path was compared just before
		time.Sleep(time.Second)
		mustWrite(t, d, records[2:3])
		time.Sleep(time.Second)
		mustWrite(t, d, records[3:])
	})
	wantContent(t, path+".1", encode(t, records[:2]))
	wantContent(t, path, encode(t, records[2:]))
}

func TestDestinationWritesNothingToARemovedFile(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after string
		happens       func(t *testing.T, path string)
	}{
		"removed":             {"", "", func(t *testing.T, path string) {}},
		"replaced":            {"", "other\n", func(t *testing.T, path string) { write(t, path, "other\n") }},
		"replaced by torn":    {"", "oth\n", func(t *testing.T, path string) { write(t, path, "oth") }},
		"torn and replaced":   {"to", "other\n", func(t *testing.T, path string) { write(t, path, "other\n") }},
		"torn, also the next": {"to", "oth\n", func(t *testing.T, path string) { write(t, path, "oth") }},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			write(t, path, tt.before)
			records := someRecords(1, 30, 100<<10)
			want := encode(t, records)
			d := destination(t, path)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			tt.happens(t, path)
			mustWrite(t, d, records)
			wantContent(t, path, tt.after+want)
		})
	}
}

func TestDestinationReportsRemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path, records := filepath.Join(dir, "out"), someRecords(1, 2, 0)
	d := destination(t, path)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n, err := d.Write(t.Context(), records)
		if n != 0 || !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("got %d, %v", n, err)
		}
		wantUnavailable(t, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, d, records)
	wantContent(t, path, encode(t, records))
}

func TestDestinationWritesToAPipe(t *testing.T) {
	path := newPath(t)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0) // keeps the open from blocking
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	records := someRecords(1, 2, 0)
	d := destination(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, d, records)
	got := make([]byte, len(encode(t, records)))
	if _, err := io.ReadFull(reader, got); err != nil || string(got) != encode(t, records) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDestinationRecordThatCannotBeEncoded(t *testing.T) {
	path := newPath(t)
	records := someRecords(1, 3, 0)
	want := encode(t, records[:2])
	records[2].After = record.Structured(map[string]any{"x": make(chan int)})
	n, err := destination(t, path).Write(t.Context(), records)
	if n != 2 || err == nil || errors.As(err, new(interface{ Lost() bool })) {
		t.Errorf("got %d, %v", n, err)
	}
	wantContent(t, path, want)
}

func BenchmarkFileDestination(b *testing.B) {
	for _, size := range []int{1, 1000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) { benchmarkFileDestination(b, someRecords(1, size, 20)) })
	}
}

func benchmarkFileDestination(b *testing.B, records []record.Record) {
	path := newPath(b)
	d := destination(b, path)
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for n < b.N {
		mustWrite(b, d, records)
		n += len(records)
		if n%1_000_000 == 0 {
			if err := os.Truncate(path, 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkPathTemplates compares templates in the path with a fixed path, in CPU time.
func BenchmarkPathTemplates(b *testing.B) {
	for _, c := range []struct{ name, path string }{
		{"fixed", "out.jsonl"},
		{"collection", "{{ .Metadata.GetCollection }}.jsonl"},
		{"metadata", `{{ index .Metadata "opencdc.collection" }}.jsonl`},
		{"time", `{{ strftime "%Y-%m-%d/%H" }}.jsonl`},
		{"time and metadata", `{{ strftime "%Y-%m-%d/%H" }}/{{ index .Metadata "opencdc.collection" }}.jsonl`},
	} {
		b.Run(c.name, func(b *testing.B) {
			records := someRecords(1, 1000, 200)
			for i := range records {
				records[i].Metadata.Set(record.KeyCollection, "c"+strconv.Itoa(i/10%10))
				records[i].Metadata.Set(record.KeyCreatedAt, strconv.FormatInt(1_800_000_000_000_000_000+int64(i)*1e6, 10))
			}
			dir := b.TempDir()
			d := destination(b, dir+"/"+c.path, "fsync", "false")
			before := cpuTime(b)
			n := 0
			for ; n < b.N; n += len(records) {
				mustWrite(b, d, records)
				if n > 0 && n%200_000 == 0 {
					truncateAll(b, dir)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(n), "cpu-ns/record")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// truncateAll empties the files below dir.
func truncateAll(b *testing.B, dir string) {
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return os.Truncate(path, 0)
	})
	if err != nil {
		b.Fatal(err)
	}
}

// deferred is the list of files that a destination leaves to the host to sync.
type deferred []sdk.Syncer

func (d *deferred) open(t *testing.T, settings map[string]string) (context.Context, *file.Destination) {
	t.Helper()
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), Defer: func(s sdk.Syncer) {
		*d = append(*d, s)
	}})
	dst := &file.Destination{}
	if err := errors.Join(dst.Configure(ctx, settings), dst.Open(ctx)); err != nil {
		t.Fatal(err)
	}
	return ctx, dst
}

// The host syncs each file that has new writes, once for any number of writes, and no other file.
func TestDestinationLeavesSyncsToTheHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	records := []record.Record{{Position: record.Position("1"), After: record.Raw([]byte("x"))}}
	var d deferred
	ctx, dst := d.open(t, map[string]string{"path": path})
	write := func(want int) {
		t.Helper()
		if n, err := dst.Write(ctx, records); n != 1 || err != nil {
			t.Fatalf("wrote %d records: %v", n, err)
		}
		if len(d) != want {
			t.Fatalf("%d syncs are left to the host, want %d", len(d), want)
		}
	}
	write(1)
	write(1)
	if err := d[0].Sync(); err != nil || d[0].Device() == 0 {
		t.Errorf("cannot sync device %d: %v", d[0].Device(), err)
	}
	write(2)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(3) // the file that has replaced it
	if err := errors.Join(d[2].Sync(), dst.Teardown(ctx), d[2].Sync()); err != nil {
		t.Error(err)
	}

	for name, settings := range map[string]map[string]string{
		"a device":  {"path": os.DevNull},
		"opted out": {"path": path, "fsync": "false"},
	} {
		var none deferred
		ctx, dst := none.open(t, settings)
		if n, err := dst.Write(ctx, records); n != 1 || err != nil || len(none) > 0 {
			t.Errorf("%s: wrote %d records with %d syncs: %v", name, n, len(none), err)
		}
		if err := dst.Teardown(ctx); err != nil {
			t.Error(err)
		}
	}
}
