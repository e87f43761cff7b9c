package deadletter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func open(t testing.TB, path string, limits deadletter.Limits) *deadletter.Store {
	t.Helper()
	s := &deadletter.Store{Path: path, Limits: limits, Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { s.Close() })
	return s
}

func openStore(t testing.TB, limits deadletter.Limits) *deadletter.Store {
	return open(t, filepath.Join(t.TempDir(), "refused.db"), limits)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// declared returns a pipeline with processors at every place.
func declared(id string) *spec.Declaration {
	chain := func(id string) []spec.Processor { return []spec.Processor{{ID: id + "0"}, {ID: id + "1"}} }
	return &spec.Declaration{Generation: 3, Digest: "d3",
		Pipeline: spec.Pipeline{ID: id, Processors: chain("p"), Connectors: []spec.Connector{
			{ID: "src", Type: spec.TypeSource, Processors: chain("s")},
			{ID: "dst", Type: spec.TypeDestination, Processors: chain("d")},
		}}}
}

func deadLetter(n int, by string, cause string) *engine.DeadLetter {
	return &engine.DeadLetter{SourceID: "p:src", RefusedBy: by, Entry: by, Err: errors.New(cause),
		Record: record.Record{
			Position: record.Position(fmt.Sprint(n)), Operation: record.OperationCreate,
			Key:   record.Raw(fmt.Appendf(nil, "key-%d", n)),
			After: record.Structured(map[string]any{"n": int64(n) + 1<<60, "f": 1.5}),
		}}
}

func keep(t testing.TB, s *deadletter.Store, d *spec.Declaration, refused ...*engine.DeadLetter) {
	t.Helper()
	for _, l := range refused {
		must(t, s.Keep(t.Context(), d, l))
	}
}

// ids lists all dead letters that match the filter, page by page.
func ids(t testing.TB, s *deadletter.Store, pipeline string, f spec.DeadLetterFilter, limit int) (all []int64) {
	t.Helper()
	for before := int64(0); ; {
		page, err := s.List(t.Context(), pipeline, f, before, limit)
		must(t, err)
		for _, l := range page.DeadLetters {
			all = append(all, l.ID)
		}
		if before = page.Next; before == 0 {
			return all
		}
	}
}

func TestDeadLettersSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refused.db")
	s := open(t, path, deadletter.Limits{})
	l := deadLetter(1, "p:dst", "too long")
	l.Stopped = true
	keep(t, s, declared("p"), l)
	must(t, s.Close())

	got, err := open(t, path, deadletter.Limits{}).Get(t.Context(), "p", 1)
	must(t, err)
	if got.Stage != spec.RefusedByDestination || got.RefusedBy != "p:dst" || got.SourceID != "p:src" ||
		got.Generation != 3 || got.Digest != "d3" ||
		got.Key != "key-1" || got.Error != "too long" || !got.Stopped || got.Times != 1 || got.Time.IsZero() {
		t.Errorf("got %+v", got)
	}
	if want := `{"position":"MQ==","operation":"create","metadata":null,"key":"a2V5LTE=","payload":{"before":null,` +
		`"after":{"f":1.5,"n":1152921504606846977}}}`; string(got.Record) != want {
		t.Errorf("record %s, want %s", got.Record, want)
	}
	if mode, _ := os.Stat(path); mode.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v", mode.Mode())
	}
}

func TestStages(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	for i, c := range []struct {
		by    string
		stage spec.DeadLetterStage
		entry deadletter.Entry
	}{
		{"p:src:s1", spec.RefusedBySourceProcessor, deadletter.Entry{Connector: "src", Processor: "s1", Index: 1}},
		{"p:p0", spec.RefusedByPipelineProcessor, deadletter.Entry{Processor: "p0"}},
		{"p:dst:d1", spec.RefusedByDestinationProcessor, deadletter.Entry{Connector: "dst", Processor: "d1", Index: 1}},
		{"p:dst", spec.RefusedByDestination, deadletter.Entry{Connector: "dst"}},
	} {
		keep(t, s, declared("p"), deadLetter(i, c.by, "no"))
		got, err := s.Get(t.Context(), "p", int64(i+1))
		must(t, err)
		next, err := s.Select(t.Context(), "p", spec.ReplayRequest{IDs: []int64{int64(i + 1)}}, nil)
		must(t, err)
		loaded, _, err := next(t.Context())
		must(t, err)
		if got.Stage != c.stage || loaded[0].Entry != c.entry {
			t.Errorf("refused by %s: stage %s, entry %+v", c.by, got.Stage, loaded[0].Entry)
		}
		if f, _ := loaded[0].Record.After.Structured(); f["f"] != 1.5 || f["n"] != int64(i)+1<<60 {
			t.Errorf("types changed: %#v", f)
		}
	}
}

// TestRecordsThatComeAgain checks that a record that a source delivers again after a crash is the same dead letter.
func TestRecordsThatComeAgain(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	d := declared("p")
	keep(t, s, d, deadLetter(1, "p:dst", "first"), deadLetter(2, "p:dst", "other"))
	must(t, s.Flush(t.Context()))
	d.Generation = 4
	again := deadLetter(1, "p:dst", "second")
	again.Record.Metadata.Set("opencdc.readAt", "later")
	keep(t, s, d, again, deadLetter(1, "p:p0", "another place"))
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 10); !slices.Equal(got, []int64{3, 2, 1}) {
		t.Fatalf("there are %v", got)
	}
	got, err := s.Get(t.Context(), "p", 1)
	must(t, err)
	if got.Times != 2 || len(got.Refusals) != 2 || got.Refusals[0].Error != "first" ||
		got.Refusals[1].Error != "second" || got.Error != "second" || got.Generation != 4 {
		t.Errorf("got %+v", got)
	}
	for i := range 30 {
		keep(t, s, d, deadLetter(2, "p:dst", fmt.Sprint("no ", i)))
	}
	got, err = s.Get(t.Context(), "p", 2)
	must(t, err)
	if n := len(got.Refusals); n != 10 || got.Refusals[0].Error != "other" || got.Refusals[n-1].Error != "no 29" ||
		got.Times != 31 {
		t.Errorf("of 31 refusals %d are known: %+v", n, got.Refusals)
	}
}

// TestDeadLettersAreDurableBeforePositions checks that a position is saved only when the dead letters that it covers
// are on disk, and that other positions do not wait.
func TestDeadLettersAreDurableBeforePositions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := open(t, filepath.Join(dir, "refused.db"), deadletter.Limits{})
	keep(t, s, declared("p"), deadLetter(1, "p:dst", "no"))
	mine, other := []spec.Checkpoint{{PipelineID: "o"}, {PipelineID: "p"}}, []spec.Checkpoint{{PipelineID: "o"}}
	if err := s.Before(t.Context(), mine); err == nil ||
		!strings.Contains(err.Error(), "cannot open the dead-letter store") {
		t.Errorf("not on disk, and it says %v", err)
	}
	must(t, s.Before(t.Context(), other))
	must(t, os.Mkdir(dir, 0o700))
	must(t, s.Before(t.Context(), mine))
	if got := ids(t, open(t, filepath.Join(dir, "refused.db"), deadletter.Limits{}), "p", spec.DeadLetterFilter{},
		10); len(got) != 1 {
		t.Errorf("on disk are %v", got)
	}
}

func TestFilters(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	d := declared("p")
	keep(t, s, d, deadLetter(1, "p:dst", "Timeout after 1s"), deadLetter(2, "p:dst", "too long"),
		deadLetter(3, "p:p0", "timeout"))
	keep(t, s, declared("other"), deadLetter(4, "other:dst", "timeout"))
	one, err := s.Get(t.Context(), "p", 2)
	must(t, err)
	for _, c := range []struct {
		f    spec.DeadLetterFilter
		want []int64
	}{
		{spec.DeadLetterFilter{}, []int64{3, 2, 1}},
		{spec.DeadLetterFilter{Error: "TIMEOUT"}, []int64{3, 1}},
		{spec.DeadLetterFilter{Key: "key-2"}, []int64{2}},
		{spec.DeadLetterFilter{Stage: spec.RefusedByPipelineProcessor}, []int64{3}},
		{spec.DeadLetterFilter{Error: "timeout", Stage: spec.RefusedByDestination}, []int64{1}},
		{spec.DeadLetterFilter{Since: one.Time}, []int64{3, 2}},
		{spec.DeadLetterFilter{Until: one.Time}, []int64{1}},
		{spec.DeadLetterFilter{Since: one.Time.Add(time.Hour)}, nil},
	} {
		for limit := 1; limit < 4; limit++ {
			if got := ids(t, s, "p", c.f, limit); !slices.Equal(got, c.want) {
				t.Errorf("%+v by %d: %v, want %v", c.f, limit, got, c.want)
			}
		}
	}
	n, err := s.DropAll(t.Context(), "p", spec.DeadLetterFilter{Error: "timeout"})
	must(t, err)
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 10); n != 2 || !slices.Equal(got, []int64{2}) {
		t.Errorf("dropped %d, left %v", n, got)
	}
	if got := ids(t, s, "other", spec.DeadLetterFilter{}, 10); len(got) != 1 {
		t.Errorf("those of another pipeline: %v", got)
	}
}

func TestEditAndDrop(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	if _, err := s.Get(t.Context(), "p", 1); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("without a file: %v", err)
	}
	keep(t, s, declared("p"), deadLetter(1, "p:dst", "no"))
	edited := deadLetter(1, "", "").Record
	edited.Key = record.Raw([]byte("another"))
	got, err := s.Edit(t.Context(), "p", 1, &edited)
	must(t, err)
	if !got.Edited || got.Key != "another" || !strings.Contains(string(got.Record), "YW5vdGhlcg==") {
		t.Errorf("edited: %+v", got)
	}
	if _, err := s.Edit(t.Context(), "other", 1, &edited); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("of another pipeline: %v", err)
	}
	// Another delivery does not undo the edit.
	keep(t, s, declared("p"), deadLetter(1, "p:dst", "no"))
	if got, err := s.Get(t.Context(), "p", 1); err != nil || got.Key != "another" || got.Times != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if n, err := s.Drop(t.Context(), "p", []int64{1, 2}); n != 1 || err != nil {
		t.Errorf("dropped %d, %v", n, err)
	}
	totals, err := s.Totals(t.Context())
	must(t, err)
	if len(totals) != 1 || totals[0].Count != 0 || totals[0].Bytes != 0 {
		t.Errorf("left: %+v", totals)
	}
}

func TestLimits(t *testing.T) {
	s := openStore(t, deadletter.Limits{Count: 10})
	keep(t, s, declared("small"), deadLetter(0, "small:dst", "no"))
	for i := range 25 {
		keep(t, s, declared("p"), deadLetter(i, "p:dst", "no"))
	}
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 100); !slices.Equal(got,
		[]int64{26, 25, 24, 23, 22, 21, 20, 19, 18}) {
		t.Errorf("left %v", got)
	}
	if got := ids(t, s, "small", spec.DeadLetterFilter{}, 100); len(got) != 1 {
		t.Errorf("the pipeline that has few lost them: %v", got)
	}
	totals, err := s.Totals(t.Context())
	must(t, err)
	if totals[0].Dropped != 16 || totals[0].Count != 9 || totals[1].Dropped != 0 {
		t.Errorf("counted %+v", totals)
	}

	bytes := openStore(t, deadletter.Limits{Bytes: 1000})
	for i := range 100 {
		keep(t, bytes, declared("p"), deadLetter(i, "p:dst", "no"))
	}
	page, err := bytes.List(t.Context(), "p", spec.DeadLetterFilter{}, 0, 100)
	must(t, err)
	if page.Totals.Bytes > 1000 || page.Totals.Bytes < 900 || int64(page.Totals.Dropped)+page.Totals.Count != 100 ||
		page.DeadLetters[0].ID != 100 {
		t.Errorf("left %+v", page.Totals)
	}

	old := openStore(t, deadletter.Limits{Age: time.Nanosecond})
	host := &clocks{set: time.Now()}
	old.Clock.Read = host.read
	must(t, old.Flush(t.Context()))
	keep(t, old, declared("p"), deadLetter(0, "p:dst", "no"))
	if got := ids(t, old, "p", spec.DeadLetterFilter{}, 10); len(got) != 1 {
		t.Errorf("within an hour of the start %v are left", got)
	}
	host.running = 2 * time.Hour
	keep(t, old, declared("p"), deadLetter(1, "p:dst", "no"))
	host.running += time.Second
	if page, err := old.List(t.Context(), "p", spec.DeadLetterFilter{}, 0, 10); err != nil || page.Totals.Count != 0 ||
		page.Totals.Dropped != 2 {
		t.Errorf("too old and there: %+v, %v", page.Totals, err)
	}
}

// TestWideModesAreTightened checks that a store that others could open becomes private, with a warning in the log.
func TestWideModesAreTightened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refused.db")
	s := open(t, path, deadletter.Limits{})
	keep(t, s, declared("p"), deadLetter(1, "p:to", "no"))
	must(t, s.Flush(t.Context()))
	s.Close()
	must(t, os.Chmod(path, 0o644))
	var log bytes.Buffer
	s = open(t, path, deadletter.Limits{})
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 10); len(got) != 1 {
		t.Fatalf("it has %v", got)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		must(t, err)
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	if got := log.String(); !strings.Contains(got, "others could open the dead-letter store") ||
		!strings.Contains(got, "mode=-rw-r--r--") {
		t.Errorf("the log says %s", got)
	}
}

// TestForeignFile checks that a file of another kind is left unchanged.
func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refused.db")
	must(t, os.WriteFile(path, []byte(strings.Repeat("not a database", 100)), 0o640))
	s := open(t, path, deadletter.Limits{})
	if _, err := s.List(t.Context(), "p", spec.DeadLetterFilter{}, 0, 1); err == nil ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("it says %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its mode was changed: %v, %v", info, err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "not a database") {
		t.Errorf("it was changed: %.20q, %v", text, err)
	}
}

// TestPages checks that the pages of a list together contain every matching dead letter. A page ends soon after its
// time is over.
func TestPages(t *testing.T) {
	const n = 3*deadletter.ScanStep + 10
	s := openStore(t, deadletter.Limits{})
	d, common := declared("p"), 0
	for i := range n {
		l := deadLetter(i, "p:dst", fmt.Sprintf("column %d is too long", i%1000))
		if i == n/2 {
			l.Err = errors.New("rare")
		} else if strings.HasPrefix(fmt.Sprint(i%1000), "7") {
			common++
		}
		keep(t, s, d, l)
	}
	must(t, s.Flush(t.Context()))
	for name, c := range map[string]struct {
		filter              spec.DeadLetterFilter
		found               int
		pages, pagesInHaste int
	}{
		"all":          {spec.DeadLetterFilter{}, n, n/deadletter.MaxPage + 1, n/deadletter.MaxPage + 1},
		"rare error":   {spec.DeadLetterFilter{Error: "rare"}, 1, 1, 4},
		"common error": {spec.DeadLetterFilter{Error: "column 7"}, common, common/deadletter.MaxPage + 1, 4},
		"key":          {spec.DeadLetterFilter{Key: fmt.Sprint("key-", n/3, "x")}, 0, 1, 4},
	} {
		for limit, pages := range map[time.Duration]int{time.Hour: c.pages, 0: c.pagesInHaste} {
			restore := deadletter.SetScanTime(limit)
			found, read := 0, 0
			for before := int64(0); ; {
				page, err := s.List(t.Context(), "p", c.filter, before, deadletter.MaxPage)
				must(t, err)
				found, read = found+len(page.DeadLetters), read+1
				if before = page.Next; before == 0 {
					break
				}
			}
			restore()
			if found != c.found || read != pages {
				t.Errorf("%s, with %v for each page: found %d on %d pages, want %d on %d", name, limit, found, read,
					c.found, pages)
			}
		}
	}
}

// selected returns all dead letters that a request selects.
func selected(t testing.TB, s *deadletter.Store, request spec.ReplayRequest) (all []deadletter.Replay, skipped int) {
	t.Helper()
	next, err := s.Select(t.Context(), "p", request, nil)
	must(t, err)
	for {
		some, n, err := next(t.Context())
		must(t, err)
		if skipped += n; len(some) == 0 && n == 0 {
			return all, skipped
		}
		all = append(all, some...)
	}
}

func numbersOf(all []deadletter.Replay) (ids []int64) {
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestSelection(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	for i := range 600 {
		l := deadLetter(i, "p:dst", fmt.Sprint("error ", i%2))
		l.Stopped = i == 599
		keep(t, s, declared("p"), l)
	}
	all, skipped := selected(t, s, spec.ReplayRequest{All: true})
	if got := numbersOf(all); len(got) != 599 || skipped != 1 || !slices.IsSorted(got) {
		t.Errorf("of 600 there are %d, %d skipped", len(got), skipped)
	}
	all, skipped = selected(t, s, spec.ReplayRequest{Filter: &spec.DeadLetterFilter{Error: "error 1"}})
	if got := numbersOf(all); len(got) != 299 || got[0] != 2 || got[298] != 598 || skipped != 1 {
		t.Errorf("the filter selects %v", got)
	}
	all, _ = selected(t, s, spec.ReplayRequest{IDs: []int64{7, 5, 7, 9999}})
	if got := numbersOf(all); !slices.Equal(got, []int64{5, 7}) {
		t.Errorf("named were 5 and 7, got %v", got)
	}
	// Dead letters that are added during the replay are not selected.
	next, err := s.Select(t.Context(), "p", spec.ReplayRequest{Filter: &spec.DeadLetterFilter{Key: "key-1000"}}, nil)
	must(t, err)
	keep(t, s, declared("p"), deadLetter(1000, "p:dst", "no"))
	must(t, s.Flush(t.Context()))
	if some, _, err := next(t.Context()); err != nil || len(some) > 0 {
		t.Errorf("got %v, %v", some, err)
	}
}

func TestSettledAndRefusedAgain(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	d := declared("p")
	keep(t, s, d, deadLetter(1, "p:p0", "a"), deadLetter(2, "p:p0", "b"), deadLetter(3, "p:p0", "c"))
	all, _ := selected(t, s, spec.ReplayRequest{All: true})
	edited := all[1].Record
	edited.Key = record.Raw([]byte("edited"))
	_, err := s.Edit(t.Context(), "p", 2, &edited)
	must(t, err)
	must(t, s.Settled(t.Context(), "p", all[:2])) // the second was edited since
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 10); !slices.Equal(got, []int64{3, 2}) || s.Replayed.Load() != 2 {
		t.Errorf("left are %v", got)
	}
	d.Generation = 9
	must(t, s.Again(t.Context(), d, 3, deadLetter(3, "p:dst", "d"), true))
	must(t, s.Again(t.Context(), d, 3, deadLetter(3, "p:other", "e"), false))
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 10); !slices.Equal(got, []int64{4, 3, 2}) {
		t.Errorf("left are %v", got)
	}
	l, err := s.Get(t.Context(), "p", 3)
	must(t, err)
	if l.RefusedBy != "p:dst" || l.Stage != spec.RefusedByDestination || l.Generation != 9 || len(l.Refusals) != 2 ||
		l.Refusals[0].Error != "c" || l.Refusals[1].Error != "d" || !l.Refusals[1].Replay {
		t.Errorf("refused again: %+v", l)
	}
	// The source's pipeline refuses the record once more, at the new place: this is the same dead letter.
	keep(t, s, d, deadLetter(3, "p:dst", "f"))
	must(t, s.Again(t.Context(), d, 2, deadLetter(3, "p:dst", "g"), true)) // 2 becomes the same as 3
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 10); !slices.Equal(got, []int64{4, 3}) {
		t.Errorf("left are %v", got)
	}
	totals, err := s.Totals(t.Context())
	must(t, err)
	var bytes int64
	page, err := s.List(t.Context(), "p", spec.DeadLetterFilter{}, 0, 10)
	must(t, err)
	for _, l := range page.DeadLetters {
		bytes += l.Bytes
	}
	if totals[0].Count != 2 || totals[0].Bytes != bytes {
		t.Errorf("counted %+v of %d bytes", totals, bytes)
	}
}

// TestUnusualRecordsAreKept checks that every record is kept, listed and replayed, whatever its values.
func TestUnusualRecordsAreKept(t *testing.T) {
	var nested any = "bottom"
	for range 5000 {
		nested = []any{nested}
	}
	for name, v := range map[string]any{
		"NaN": math.NaN(), "Infinity": math.Inf(1), "Latin-1": "caf\xe9", "NUL": "a\x00b",
		"year 12345":   time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC),
		"great number": json.Number("1e400"), "channel": make(chan int), "depth": nested,
		"name in Latin-1": map[string]any{"\xe9": 1},
		"bytes":           []byte{0, 0xff}, "time": time.Unix(1, 2).UTC(),
		"like what is kept": map[string]any{"exact": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, deadletter.Limits{})
			l := deadLetter(1, "p:dst", "cannot write caf\xe9")
			l.Record.Metadata = record.Metadata{{Key: "\xff", Value: "\xfe"}}
			l.Record.Key, l.Record.After = record.Raw([]byte("k\xff")),
				record.Structured(map[string]any{"v": v, "n": 1})
			keep(t, s, declared("p"), l)
			must(t, s.Flush(t.Context()))
			listed := ids(t, s, "p", spec.DeadLetterFilter{}, 10)
			all, skipped := selected(t, s, spec.ReplayRequest{})
			if len(listed) != 1 || len(all) != 1 || skipped != 0 {
				t.Fatalf("listed %v, to be replayed %d, skipped %d", listed, len(all), skipped)
			}
			if key, _ := all[0].Record.Key.Raw(); string(key) != "k\xff" || all[0].Record.After.IsNone() {
				t.Errorf("got %v", all[0].Record)
			}
			if name != "channel" && name != "depth" &&
				fmt.Sprintf("%#v", all[0].Record.Map()) != fmt.Sprintf("%#v", l.Record.Map()) {
				t.Errorf("replayed is\n%#v, want\n%#v", all[0].Record.Map(), l.Record.Map())
			}
			one, err := s.Get(t.Context(), "p", listed[0])
			if must(t, err); strings.Contains(string(one.Record), `},"exact"`) || !json.Valid(one.Record) {
				t.Errorf("shown is %.200s", one.Record)
			}
		})
	}
}
