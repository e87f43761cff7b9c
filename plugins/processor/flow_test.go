package processor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor/flow"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// openFlow returns an instance of the processor that keeps its state in dir.
func openFlow(t *testing.T, name, dir string, settings map[string]string) (sdk.Processor, context.Context) {
	t.Helper()
	ctx := sdk.WithEnv(context.Background(), &sdk.Env{StateDir: dir})
	for _, plugin := range flow.Plugins() {
		if plugin.Name != name {
			continue
		}
		p := plugin.New()
		params := p.Parameters()
		if err := p.Configure(ctx, params.ApplyDefaults(settings)); err != nil {
			t.Fatal(err)
		}
		if err := p.Open(ctx); err != nil {
			t.Fatal(err)
		}
		return p, ctx
	}
	t.Fatalf("there is no processor %s", name)
	return nil, nil
}

func withKeys(keys ...string) []record.Record {
	records := make([]record.Record, len(keys))
	for i, k := range keys {
		records[i] = record.Record{Position: fmt.Append(nil, i), Key: record.Raw([]byte(k))}
	}
	return records
}

// processKeys returns the keys that pass, and the batch.
func processKeys(
	t *testing.T, p sdk.Processor, ctx context.Context, token any, keys ...string,
) ([]string, *sdk.ProcessBatch) {
	t.Helper()
	records := withKeys(keys...)
	b := sdk.NewProcessBatch(token, records, nil)
	if err := p.Process(ctx, b); err != nil {
		t.Fatal(err)
	}
	goOn := []string{}
	for i, r := range records {
		if f := b.Fates(); f == nil || f[i].Kind == sdk.Kept {
			k, _ := r.Key.Raw()
			goOn = append(goOn, string(k))
		}
	}
	return goOn, b
}

func wantKeys(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v go on, want %v", what, got, want)
	}
}

func TestDedupeForgetsByCountAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ctx := openFlow(t, "dedupe", "", map[string]string{"window.count": "2", "window.time": "1m"})
		got, _ := processKeys(t, p, ctx, 1, "a", "b", "a", "c", "a")
		wantKeys(t, "the third key makes the first forgotten", got, "a", "b", "c", "a")
		time.Sleep(59 * time.Second)
		got, _ = processKeys(t, p, ctx, 2, "c", "a", "")
		wantKeys(t, "within the time", got, "")
		time.Sleep(time.Second)
		got, _ = processKeys(t, p, ctx, 3, "a")
		wantKeys(t, "after the time", got, "a")
	})
}

func TestDedupeKeepsCommittedKeysAcrossRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	p, ctx := openFlow(t, "dedupe", dir, nil)
	processKeys(t, p, ctx, "one", "a", "b")
	processKeys(t, p, ctx, "two", "c", "a")
	if err := p.(sdk.CommitObserver).Committed(ctx, []any{"one"}); err != nil {
		t.Fatal(err)
	}
	// The batch two is not committed, so its records are read again after the crash.
	p, ctx = openFlow(t, "dedupe", dir, nil)
	got, _ := processKeys(t, p, ctx, "again", "c", "a", "b", "d")
	wantKeys(t, "after a crash", got, "c", "d")
	if err := p.Teardown(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestDedupeReadsATornJournal(t *testing.T) {
	dir := t.TempDir()
	p, ctx := openFlow(t, "dedupe", dir, nil)
	processKeys(t, p, ctx, "one", "a", "b")
	if err := p.(sdk.CommitObserver).Committed(ctx, []any{"one"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "seen")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	p, ctx = openFlow(t, "dedupe", dir, nil)
	got, _ := processKeys(t, p, ctx, "two", "a", "b")
	wantKeys(t, "what was torn", got, "b")
	if err := p.(sdk.CommitObserver).Committed(ctx, []any{"two"}); err != nil {
		t.Fatal(err)
	}
	p, ctx = openFlow(t, "dedupe", dir, nil)
	got, _ = processKeys(t, p, ctx, "three", "a", "b")
	wantKeys(t, "what was appended behind it", got)
}

func TestDedupeCompactsItsJournal(t *testing.T) {
	dir := t.TempDir()
	p, ctx := openFlow(t, "dedupe", dir, map[string]string{"window.count": "10"})
	for batch := range 200 {
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = fmt.Sprint(batch, ".", i)
		}
		processKeys(t, p, ctx, batch, keys...)
		if err := p.(sdk.CommitObserver).Committed(ctx, []any{batch}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "seen"))
	if err != nil || info.Size() > 11_000*24 {
		t.Errorf("the journal has %d bytes after 20,000 keys, %v", info.Size(), err)
	}
	p, ctx = openFlow(t, "dedupe", dir, map[string]string{"window.count": "10"})
	got, _ := processKeys(t, p, ctx, "again", "199.99", "0.0")
	wantKeys(t, "after compaction", got, "0.0")
}

// fillJournal makes a dedupe with this window.count fill its journal up to the point of compaction.
func fillJournal(t *testing.T, p sdk.Processor, ctx context.Context, count int) {
	t.Helper()
	keys := make([]string, 2*count+10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("filler ", i)
	}
	processKeys(t, p, ctx, "fillers", keys...)
	if err := p.(sdk.CommitObserver).Committed(ctx, []any{"fillers"}); err != nil {
		t.Fatal(err)
	}
}

// commitAndCompact commits a batch, which compacts the full journal in dir.
func commitAndCompact(t *testing.T, p sdk.Processor, ctx context.Context, dir string, token any) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "seen"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if err := p.(sdk.CommitObserver).Committed(ctx, []any{token}); err != nil {
		t.Fatal(err)
	}
	if after := size(); after > before/10 {
		t.Fatalf("the journal is not compacted: it has %d bytes, and had %d", after, before)
	}
}

// Compaction makes only committed keys durable: neither the keys of an outstanding batch nor keys from records whose
// commit is not reported.
func TestDedupeCompactsOnlyCommittedKeys(t *testing.T) {
	dir := t.TempDir()
	settings := map[string]string{"window.count": "100"}
	p, ctx := openFlow(t, "dedupe", dir, settings)
	fillJournal(t, p, ctx, 100)
	processKeys(t, p, ctx, "outstanding", "a")
	processKeys(t, p, ctx, nil, "b")
	processKeys(t, p, ctx, "one", "c")
	commitAndCompact(t, p, ctx, dir, "one")
	p, ctx = openFlow(t, "dedupe", dir, settings)
	got, _ := processKeys(t, p, ctx, "again", "a", "b", "c")
	wantKeys(t, "after a crash", got, "a", "b")
	if err := p.Teardown(ctx); err != nil {
		t.Fatal(err)
	}
}

// The next run is prepared while the previous one still learns keys.
func TestDedupeRemembersLastKeysOfPreviousRun(t *testing.T) {
	dir := t.TempDir()
	settings := map[string]string{"window.count": "100"}
	p, ctx := openFlow(t, "dedupe", dir, settings)
	fillJournal(t, p, ctx, 100)
	processKeys(t, p, ctx, "one", "a")
	next, nctx := openFlow(t, "dedupe", dir, settings)
	commitAndCompact(t, p, ctx, dir, "one")
	if err := p.Teardown(ctx); err != nil {
		t.Fatal(err)
	}
	got, _ := processKeys(t, next, nctx, "two", "a", "b")
	wantKeys(t, "in the next run", got, "b")
	if err := next.(sdk.CommitObserver).Committed(nctx, []any{"two"}); err != nil {
		t.Fatal(err)
	}
	if err := next.Teardown(nctx); err != nil {
		t.Fatal(err)
	}
	last, lctx := openFlow(t, "dedupe", dir, settings)
	got, _ = processKeys(t, last, lctx, "three", "a", "b", "c")
	wantKeys(t, "in the run after that", got, "c")
	if err := last.Teardown(lctx); err != nil {
		t.Fatal(err)
	}
}

// A journal that cannot grow ends the run, because new keys would be lost.
func TestDedupeReportsAJournalThatIsFull(t *testing.T) {
	dir := t.TempDir()
	p, ctx := openFlow(t, "dedupe", dir, nil)
	processKeys(t, p, ctx, "one", "a")
	seen := filepath.Join(dir, "seen")
	tooLarge := sort.Search(math.MaxInt, func(size int) bool { return os.Truncate(seen, int64(size)) != nil })
	if err := os.Truncate(seen, int64(tooLarge)-1); err != nil {
		t.Fatal(err)
	}
	processKeys(t, p, ctx, "two", "b")
	if err := p.(sdk.CommitObserver).Committed(ctx, []any{"one", "two"}); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("what is committed cannot be kept: %v", err)
	}
	if err := p.Teardown(ctx); err != nil {
		t.Error(err)
	}
}

// A journal that cannot be synced also ends the run.
func TestDedupeReportsAJournalThatCannotBeSynced(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/null", filepath.Join(dir, "seen")); err != nil { // /dev/null cannot be synced
		t.Fatal(err)
	}
	p, ctx := openFlow(t, "dedupe", dir, nil)
	n := 0
	commit := func() error {
		n++
		processKeys(t, p, ctx, n, fmt.Sprint(n))
		return p.(sdk.CommitObserver).Committed(ctx, []any{n})
	}
	if err := commit(); err != nil {
		t.Fatalf("it is synced in the background: %v", err)
	}
	wait.For(t, "what is committed next says that it failed", func() bool { return commit() != nil })
	if err := p.Teardown(ctx); err == nil {
		t.Error("the journal cannot be closed, and nothing says so")
	}
}

func TestThrottleDelaysInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ctx := openFlow(t, "throttle", "", map[string]string{"rate": "10"})
		timed := p.(sdk.TimedProcessor)
		keys := make([]string, 25)
		for i := range keys {
			keys[i] = fmt.Sprintf("%02d", i)
		}
		start := time.Now()
		out, _ := processKeys(t, p, ctx, "one", keys...)
		if len(out) != 10 {
			t.Fatalf("%d go on at once, want the 10 of a second", len(out))
		}
		settled := map[sdk.Held]bool{}
		for extra := true; !timed.Deadline().IsZero(); extra = false {
			time.Sleep(time.Until(timed.Deadline()))
			var late []string
			if extra {
				late = []string{"25"} // arrives while others wait
			}
			kept, b := processKeys(t, p, ctx, "two", late...)
			if len(kept) > 0 {
				t.Fatalf("%v overtakes what waits", kept)
			}
			for _, e := range b.Emitted() {
				for _, r := range e.Records {
					k, _ := r.Key.Raw()
					out = append(out, string(k))
				}
				for _, h := range e.Settles {
					settled[h] = true
				}
			}
		}
		if !slices.Equal(out, append(keys, "25")) || len(settled) != 16 {
			t.Errorf("%v, %d settled", out, len(settled))
		}
		if d := time.Since(start); d < 1500*time.Millisecond || d > 1800*time.Millisecond {
			t.Errorf("26 records took %s, want about 1.6 s", d)
		}
	})
}

func TestSampleByKeyTreatsEqualKeysAlike(t *testing.T) {
	p, ctx := openFlow(t, "sample", "", map[string]string{"ratio": "0.5", "key": ".Key"})
	var keys []string
	for i := range 1000 {
		keys = append(keys, fmt.Sprint(i%200))
	}
	got, _ := processKeys(t, p, ctx, 1, keys...)
	counts := map[string]int{}
	for _, k := range got {
		counts[k]++
	}
	for k, n := range counts {
		if n != 5 {
			t.Errorf("key %s goes on %d times of 5", k, n)
		}
	}
	if n := len(counts); n < 60 || n > 140 {
		t.Errorf("%d of 200 keys go on, want about half", n)
	}
}

func TestSampleByRatio(t *testing.T) {
	p, ctx := openFlow(t, "sample", "", map[string]string{"ratio": "0.25"})
	got, _ := processKeys(t, p, ctx, 1, make([]string, 10_000)...)
	if n := len(got); n < 2200 || n > 2800 {
		t.Errorf("%d of 10000 go on, want about a quarter", n)
	}
}
