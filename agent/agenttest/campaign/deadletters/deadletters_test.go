// Package deadletters_test measures how long it takes to show pages of many dead letters.
package deadletters_test

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

var count = flag.Int("letters", 100_000, "dead letters")

// promised is the time limit for a page. tries is the number of retries of a page that takes longer: other programs may
// have used the machine.
const (
	promised = 100 * time.Millisecond
	tries    = 50
)

// Every page arrives within the limit, for every query.
func TestPagesComeSoon(t *testing.T) {
	s := &deadletter.Store{Path: filepath.Join(t.TempDir(), "refused.db"), Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { _ = s.Close() })
	d := &spec.Declaration{Pipeline: spec.Pipeline{ID: "p"}}
	for i := range *count {
		l := &engine.DeadLetter{SourceID: "p:src", RefusedBy: "p:dst", Err: fmt.Errorf("column %d is too long", i%1000),
			Record: record.Record{
				Position: record.Position(fmt.Sprint(i)), Operation: record.OperationCreate,
				Key:   record.Raw(fmt.Appendf(nil, "key-%d", i)),
				After: record.Structured(map[string]any{"n": int64(i) + 1<<60, "f": 1.5}),
			}}
		if i == *count/2 {
			l.Err = errors.New("rare")
		}
		if err := s.Keep(t.Context(), d, l); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		filter spec.DeadLetterFilter
		found  int // -1: many
	}{
		"all":          {spec.DeadLetterFilter{}, *count},
		"rare error":   {spec.DeadLetterFilter{Error: "rare"}, 1},
		"common error": {spec.DeadLetterFilter{Error: "column 7"}, -1},
		"key":          {spec.DeadLetterFilter{Key: fmt.Sprint("key-", *count/3, "x")}, 0},
	} {
		found, pages, again := 0, 0, 0
		for before := int64(0); ; pages++ {
			page, took := list(t, s, c.filter, before)
			for try := 1; took > promised; try++ {
				if try == tries {
					t.Fatalf("%s: page %d took more than %v each time of %d", name, pages+1, promised, tries)
				}
				again++
				page, took = list(t, s, c.filter, before)
			}
			found += len(page.DeadLetters)
			if before = page.Next; before == 0 {
				break
			}
		}
		t.Logf("%s: %d pages, %d times one was asked for again", name, pages+1, again)
		if c.found >= 0 && found != c.found || c.found < 0 && found < *count/100 {
			t.Errorf("%s: found %d", name, found)
		}
	}
}

func list(t *testing.T, s *deadletter.Store, f spec.DeadLetterFilter,
	before int64) (spec.DeadLetterPage, time.Duration) {
	t.Helper()
	begin := time.Now()
	page, err := s.List(t.Context(), "p", f, before, deadletter.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	return page, time.Since(begin)
}
