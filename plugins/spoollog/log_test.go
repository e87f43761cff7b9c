package spoollog_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// open opens a log with small segments and closes it when the test ends.
func open(t *testing.T, dir string) *spoollog.Log {
	t.Helper()
	l, err := spoollog.Open(dir, spoollog.Options{SegmentBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// numbered returns records with the numbers from up to to-1.
func numbered(from, to int) (records []record.Record) {
	for n := from; n < to; n++ {
		records = append(records, record.Record{
			Operation: record.OperationCreate,
			Metadata:  record.Metadata{{Key: "k", Value: fmt.Sprint(n)}},
			After:     record.Raw(fmt.Appendf(nil, "record %d", n)),
		})
	}
	return records
}

// add appends the records in frames of ten.
func add(t *testing.T, l *spoollog.Log, from, to int) {
	t.Helper()
	for ; from < to; from += 10 {
		frames, n, err := spoollog.Encode(numbered(from, min(from+10, to)))
		if err != nil || n == 0 {
			t.Fatalf("encoded %d: %v", n, err)
		}
		commit, err := l.Writer().Append(t.Context(), frames)
		if err == nil {
			err = commit.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the numbers of the records from offset on, and the cursor after them.
func read(t *testing.T, l *spoollog.Log, offset uint64) (numbers []int, c *spoollog.Cursor) {
	t.Helper()
	c = l.Cursor(offset)
	t.Cleanup(c.Close)
	for {
		records, offsets, err := c.Read(math.MaxUint64)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			return numbers, c
		}
		if len(offsets) != len(records) || offsets[len(offsets)-1] >= c.Next() {
			t.Fatalf("%d records with %d offsets before %d", len(records), len(offsets), c.Next())
		}
		for _, r := range records {
			b, _ := r.After.Raw()
			var n int
			if _, err := fmt.Sscanf(string(b), "record %d", &n); err != nil || r.Metadata.Get("k") != fmt.Sprint(n) {
				t.Fatalf("got %q with %v", b, r.Metadata)
			}
			numbers = append(numbers, n)
		}
	}
}

// runs describes numbers as runs of consecutive numbers.
func runs(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		i = j + 1
	}
	return strings.Join(parts, " ")
}

func want(t *testing.T, l *spoollog.Log, offset uint64, want string) uint64 {
	t.Helper()
	numbers, c := read(t, l, offset)
	if got := runs(numbers); got != want {
		t.Errorf("got the records %q, want %q", got, want)
	}
	return c.Next()
}

// files returns the segments, oldest first.
func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestReadsWhatWasAppended(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	want(t, l, 0, "")
	add(t, l, 0, 1000)
	next := want(t, l, 0, "0-999")
	want(t, l, 555, "555-999")
	add(t, l, 1000, 1003)
	want(t, l, next, "1000-1002")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(files(t, dir)); n < 10 {
		t.Errorf("%d segments, want many", n)
	}

	again := open(t, dir)
	if again.ID() != l.ID() {
		t.Error("the log has another id after it was opened again")
	}
	add(t, again, 1003, 1010)
	want(t, again, 0, "0-1009")
	want(t, again, next, "1000-1009")
}

// A log that a killed process left behind can be opened, and loses nothing.
func TestOpensWhatWasNotClosed(t *testing.T) {
	dir := t.TempDir()
	add(t, open(t, dir), 0, 100) // and do not close it
	l := open(t, dir)
	add(t, l, 100, 120)
	want(t, l, 0, "0-119")
	if torn := l.Counts().Torn; torn != 0 {
		t.Errorf("%d bytes were cut", torn)
	}
}

// The temporary files of an interrupted save of a reader's position are removed when the log is opened.
func TestRemovesDraftsOfReaders(t *testing.T) {
	dir := t.TempDir()
	draft := filepath.Join(dir, "reader-0123456789abcdef.tmp")
	if err := os.WriteFile(draft, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(draft); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
}

func TestCutsTornEnd(t *testing.T) {
	for _, garbage := range []string{"x", "\xf5SPL", strings.Repeat("\x00", 4096), strings.Repeat("\xf5SPL", 100)} {
		dir := t.TempDir()
		add(t, open(t, dir), 0, 10)
		path := files(t, dir)[0]
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(garbage); err != nil {
			t.Fatal(err)
		}
		f.Close()
		l := open(t, dir)
		if got := l.Counts(); got.Torn != int64(len(garbage)) || got.Damaged != 0 {
			t.Errorf("%+v, want %d bytes cut", got, len(garbage))
		}
		add(t, l, 10, 20)
		want(t, l, 0, "0-19")
	}
}

// A changed byte costs only the records of the same frame, which are counted.
func TestSkipsDamage(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	add(t, l, 0, 200)
	l.Close()
	path := files(t, dir)[1]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	frame := strings.Index(string(text[1:]), "\xf5SPL") + 1
	for _, at := range []int{0, 5, 9, 20, frame - 1, frame, frame + 4, frame + 8, len(text) - 1} {
		damaged := []byte(string(text))
		damaged[at] ^= 0x10
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, dir)
		numbers, _ := read(t, l, 0)
		if len(numbers) != 190 || numbers[0] != 0 || numbers[189] != 199 {
			t.Errorf("byte %d changed: got the records %s", at, runs(numbers))
		}
		if got := l.Counts().Damaged; got != 10 {
			t.Errorf("byte %d changed: %d records count as damaged, want 10", at, got)
		}
		read(t, l, 0)
		if got := l.Counts().Damaged; got != 10 {
			t.Errorf("byte %d changed: counted %d when read twice, want 10", at, got)
		}
		l.Close()
	}
}

// A record that contains a segment is not mistaken for one next to a damaged part.
func TestFramesInsideOfRecordsAreNone(t *testing.T) {
	inner := t.TempDir()
	l := open(t, inner)
	add(t, l, 0, 30)
	l.Close()
	text, err := os.ReadFile(files(t, inner)[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	outer := open(t, dir)
	frames, _, err := spoollog.Encode([]record.Record{{After: record.Raw(text)}})
	if err != nil {
		t.Fatal(err)
	}
	commit, err := outer.Writer().Append(t.Context(), frames)
	if err != nil {
		t.Fatal(err)
	}
	if err := commit.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	outer.Close()
	path := files(t, dir)[0]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[0]++
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	outer = open(t, dir)
	want(t, outer, 0, "")
	if got := outer.Counts().Damaged; got != 1 {
		t.Errorf("%d records count as damaged, want 1", got)
	}
}

func TestRemovesSegmentsAcknowledgedByAllReaders(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	a, err := l.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Reader("b")
	if err != nil {
		t.Fatal(err)
	}
	add(t, l, 0, 200)
	all := len(files(t, dir))
	if err := a.Acknowledge(200); err != nil {
		t.Fatal(err)
	}
	if n := len(files(t, dir)); n != all {
		t.Errorf("%d of %d segments are left although a reader needs them", n, all)
	}
	if err := b.Acknowledge(100); err != nil {
		t.Fatal(err)
	}
	if oldest, _ := l.Bounds(); oldest == 0 || oldest > 100 {
		t.Errorf("the oldest record is %d, want one before 100", oldest)
	}
	l.Close()

	l = open(t, dir) // readers are remembered
	if oldest, _ := l.Bounds(); oldest == 0 || oldest > 100 {
		t.Errorf("the oldest record is %d, want one before 100", oldest)
	}
	want(t, l, 100, "100-199")
	if err := l.RemoveReader("b"); err != nil {
		t.Fatal(err)
	}
	if n := len(files(t, dir)); n != 1 {
		t.Errorf("%d segments are left, want the last one", n)
	}
}

func TestLimits(t *testing.T) {
	const limit = 1 << 20
	body := func(n int) []record.Record { return []record.Record{{After: record.Raw(make([]byte, n))}} }
	for _, full := range []spoollog.Full{spoollog.DropOldest, spoollog.DropNewest} {
		dir := t.TempDir()
		l, err := spoollog.Open(dir, spoollog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l.SetLimits(spoollog.Limits{Bytes: limit, Full: full})
		for range 300 {
			frames, _, _ := spoollog.Encode(body(10_000))
			commit, err := l.Writer().Append(t.Context(), frames)
			if err == nil {
				err = commit.Wait(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var size int64
		for _, f := range files(t, dir) {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if size > limit || size < limit*8/10 {
			t.Errorf("full %v: %d bytes, want nearly %d", full, size, limit)
		}
		records, _, err := l.Cursor(0).Read(math.MaxUint64)
		if err != nil || len(records) == 0 {
			t.Fatalf("full %v: read %d records: %v", full, len(records), err)
		}
		oldest, end := l.Bounds()
		if dropped := l.Counts().Dropped; dropped+end-oldest != 300 || (oldest > 0) != (full == spoollog.DropOldest) {
			t.Errorf("full %v: %d dropped and %d to %d there of 300", full, dropped, oldest, end)
		}
		l.Close()
	}
}

// When the log is full and set to block, Append waits until a reader acknowledges.
// A full log that refuses records keeps the others, and takes records again once its reader has read.
func TestRefusesWhileFull(t *testing.T) {
	l := open(t, t.TempDir())
	r, err := l.Reader("r")
	if err != nil {
		t.Fatal(err)
	}
	add(t, l, 0, 100)
	bytes := l.Stats().Bytes
	l.SetLimits(spoollog.Limits{Bytes: bytes, Full: spoollog.Refuse})
	frames, _, err := spoollog.Encode(numbered(100, 110))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Writer().Append(t.Context(), frames); !errors.Is(err, spoollog.ErrFull) {
		t.Errorf("appended to a full log, error %v", err)
	}
	want(t, l, 0, "0-99")
	if err := r.Acknowledge(60); err != nil {
		t.Fatal(err)
	}
	add(t, l, 100, 110)
	want(t, l, 60, "60-109")
	if n := l.Counts().Dropped; n != 0 {
		t.Errorf("%d records were dropped", n)
	}
}

func TestBlocksWhileFull(t *testing.T) {
	l := open(t, t.TempDir())
	l.SetLimits(spoollog.Limits{Bytes: 3000})
	r, err := l.Reader("r")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		add(t, l, 0, 1000)
	}()
	next := uint64(0)
	for {
		numbers, c := read(t, l, next)
		if len(numbers) > 0 && numbers[0] != int(next) {
			t.Fatalf("read %d, want %d", numbers[0], next)
		}
		next = c.Next()
		if err := r.Acknowledge(next); err != nil {
			t.Fatal(err)
		}
		if next == 1000 {
			break
		}
		if err := l.Cursor(next).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if got := l.Counts(); got.Dropped != 0 {
		t.Errorf("%+v, want nothing dropped", got)
	}
}

func TestLimitOfAge(t *testing.T) {
	now := time.Now()
	l, err := spoollog.Open(t.TempDir(), spoollog.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetLimits(spoollog.Limits{Age: time.Hour, Full: spoollog.DropOldest})
	for i := range 100 {
		add(t, l, 10*i, 10*i+10)
		now = now.Add(5 * time.Minute)
	}
	oldest, end := l.Bounds()
	if kept := end - oldest; kept < 120 || kept > 140 {
		t.Errorf("%d records are left, want those of an hour: 120", kept)
	}
	if dropped := l.Counts().Dropped; dropped != oldest {
		t.Errorf("%d count as dropped, want %d", dropped, oldest)
	}
}
