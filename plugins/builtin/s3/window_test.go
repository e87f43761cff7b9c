package s3_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// lookback is the lookback of the sources in these tests.
const lookback = time.Minute

// TestLate reads objects that appear after later ones were read, each once, in the order of their times, also when the
// source is reopened. It does not read an object that is older than the window.
func TestLate(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	now := time.Now().Add(-20 * time.Second).Truncate(time.Second)
	set := quick(f.addr(), "listing.lookback", lookback.String())
	f.put("a", "1", now)
	f.put("k", "1", now)
	r := source(t, set, nil)
	all := r.read(t, 2)
	f.put("b", "2", now.Add(-35*time.Second)) // the snapshot is past its key
	all = append(all, r.read(t, 1)...)
	f.put("m", "3", now.Add(10*time.Second))
	all = append(all, r.read(t, 1)...)
	f.put("z", "4", now.Add(5*time.Second))
	f.put("c", "5", now.Add(10*time.Second)) // of the same second
	f.put("y", "6", now.Add(-30*time.Second))
	f.put("n", "7", now.Add(11*time.Second))
	f.put("x", "8", now.Add(-2*time.Minute))
	all = append(all, r.read(t, 4)...)
	f.put("o", "9", now.Add(12*time.Second))
	all = append(all, r.read(t, 1)...)
	want(t, all, "snapshot:a=1 snapshot:k=1 create:b=2 create:m=3 create:y=6 create:z=4 create:c=5 create:n=7 "+
		"create:o=9")
	for i := 2; i < 8; i++ { // after the snapshot
		resumed := source(t, set, all[i].Position).read(t, 8-i)
		if got, wanted := sorted(resumed), sorted(all[i+1:]); !slices.Equal(got, wanted) {
			t.Errorf("behind %s: got %v, want %v", text(all[i:i+1]), got, wanted)
		}
	}
}

// sorted returns the sorted texts of records.
func sorted(records []record.Record) (all []string) {
	for i := range records {
		all = append(all, text(records[i:i+1]))
	}
	slices.Sort(all)
	return all
}

var seeds = flag.Uint64("seeds", 3, "simulations of each kind")

// simulation is a store in which objects appear late, are replaced and removed, while a source reads them and is
// reopened from any position. There are few keys; each content is unique.
type simulation struct {
	t      *testing.T
	random *rand.Rand
	fake   *fake
	set    map[string]string
	source *reader
	log    wait.Buffer // of the reopened sources

	newest  time.Time
	n       int               // number of contents so far
	present map[string]string // content by key, in a bucket without versions
	written map[string]bool   // contents in the store; with versions, all contents
	got     []record.Record   // in the order of reading, up to the last position
}

func simulate(t *testing.T, seed uint64, versions bool) {
	s := &simulation{t: t, random: rand.New(rand.NewPCG(seed, 0)), fake: newFake(t, versions),
		present: map[string]string{}, written: map[string]bool{}}
	s.fake.perPage = 100
	s.newest = time.Now().Add(-10 * time.Hour).Truncate(time.Second)
	s.set = quick(s.fake.addr(), "listing.lookback", lookback.String(), "pollingPeriod", "1ms")
	s.source = source(t, s.set, record.Position(fmt.Sprintf("key_c%d", s.newest.Unix())))
	s.readUpTo("begin")
	rounds := 12
	if seed == 0 {
		rounds = 60
	}
	for round := range rounds {
		for range s.random.IntN(6) {
			s.put()
		}
		s.readUpTo(fmt.Sprintf("end-%d", round))
		s.check(fmt.Sprintf("seed %d, round %d", seed, round))
		if s.random.IntN(2) == 0 && len(s.got) > 0 {
			s.reopen()
		}
	}
}

// put writes an object whose time is up to lookback before the newest one, or removes one.
func (s *simulation) put() {
	at := s.newest
	if s.random.IntN(2) == 0 {
		at = at.Add(-time.Duration(s.random.Int64N(int64(lookback)))).Truncate(time.Second).Add(time.Second)
	} else {
		at = at.Add(time.Duration(s.random.IntN(20)) * time.Second)
	}
	if at.After(s.newest) {
		s.newest = at
	}
	s.write(fmt.Sprintf("key-%02d", s.random.IntN(40)), at)
}

func (s *simulation) write(key string, at time.Time) {
	s.n++
	content := fmt.Sprint(s.n)
	if !s.fake.versions {
		delete(s.written, s.present[key])
	}
	if s.random.IntN(8) == 0 && !s.fake.versions {
		s.fake.remove(key)
		delete(s.present, key)
		return
	}
	s.fake.put(key, content, at)
	s.present[key], s.written[content] = content, true
}

// readUpTo writes an object and reads until it arrives. All objects of the store arrive before it.
func (s *simulation) readUpTo(last string) {
	s.newest = s.newest.Add(time.Second)
	s.n++
	s.fake.put(last, fmt.Sprint(s.n), s.newest)
	s.written[fmt.Sprint(s.n)] = true
	for {
		r := s.source.read(s.t, 1)[0]
		s.got = append(s.got, r)
		if key, _ := r.Key.Raw(); string(key) == last {
			return
		}
	}
}

// check compares the records with the store: nothing is missing, and nothing arrived twice unless the log says so. A
// position nearly always shows which objects were read, but its hashes differ in each run.
func (s *simulation) check(when string) {
	seen := map[string]bool{}
	for i := range s.got {
		content, _ := s.got[i].After.Raw()
		if seen[string(content)] && !strings.Contains(s.log.String(), "reading these objects") {
			s.t.Fatalf("%s: %s came twice", when, text(s.got[i:i+1]))
		}
		seen[string(content)] = true
	}
	for content := range s.written {
		if !seen[content] {
			s.t.Fatalf("%s: %s is missing", when, content)
		}
	}
}

// reopen opens the source from the position of a recent record. The later ones arrive again.
func (s *simulation) reopen() {
	s.got = s.got[:len(s.got)-s.random.IntN(min(len(s.got), 6))]
	again, ctx := &s3.Source{}, sdk.WithEnv(s.t.Context(), &sdk.Env{Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	if err := errors.Join(again.Configure(ctx, s.set), again.Open(ctx, s.got[len(s.got)-1].Position)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = again.Teardown(context.WithoutCancel(ctx)) })
	s.source = &reader{source: again}
}

// TestWindow simulates objects that appear up to listing.lookback late.
func TestWindow(t *testing.T) {
	t.Parallel()
	for _, versions := range []bool{false, true} {
		t.Run(fmt.Sprintf("versions %v", versions), func(t *testing.T) {
			t.Parallel()
			for seed := range *seeds {
				simulate(t, seed, versions)
			}
		})
	}
}

// TestFullWindow shortens a window with too many objects and logs it. It misses no object that appears within the
// window, from whichever position it is reopened.
func TestFullWindow(t *testing.T) {
	defer s3.SetMostKnown(10)()
	f := newFake(t, false)
	f.perPage = 100
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	set := quick(f.addr(), "listing.lookback", lookback.String(), "pollingPeriod", "1ms")
	r := source(t, set, record.Position(fmt.Sprintf("key_c%d", begin.Unix())))
	var all []record.Record
	for i := range 20 {
		at := begin.Add(time.Duration(4*i) * time.Second / 2)
		f.put(fmt.Sprintf("%02d", i), "-on time", at)
		all = append(all, r.read(t, 1)...)
		for late := range 3 {
			f.put(fmt.Sprintf("%02d late %d", i, late), "late", at.Add(-time.Duration(late)*time.Second))
		}
		all = append(all, r.read(t, 3)...)
	}
	if warning := r.source.(*s3.Source).Progress().Warning; !strings.Contains(warning, "more than 10 objects") {
		t.Errorf("the warning is %q", warning)
	}
	for i := 0; i < len(all)-1; i += 3 {
		if got, wanted := sorted(source(t, set, all[i].Position).read(t,
			len(all)-i-1)), sorted(all[i+1:]); !slices.Equal(got, wanted) {
			t.Fatalf("behind %s: got %v, want %v", text(all[i:i+1]), got, wanted)
		}
	}
}

// TestBusyWindow reopens a source whose position lists fewer objects than it has read. If the others are the same,
// nothing comes again. If one came or went, those that are not listed come again, and nothing is missed.
func TestBusyWindow(t *testing.T) {
	defer s3.SetMostNewest(4)()
	f := newFake(t, false)
	f.perPage = 100
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	set := quick(f.addr(), "listing.lookback", lookback.String(), "pollingPeriod", "1ms")
	r := source(t, set, record.Position(fmt.Sprintf("key_c%d", begin.Unix())))
	for i := range 8 {
		f.put(fmt.Sprint(i), "", begin.Add(time.Duration(i)*time.Second))
	}
	all := r.read(t, 8)
	f.put("8", "", begin.Add(8*time.Second))
	position := source(t, set, all[7].Position).read(t, 1)[0]
	want(t, []record.Record{position}, "create:8=")
	f.remove("1")
	f.put("late", "", begin.Add(time.Second))
	f.put("9", "", begin.Add(9*time.Second))
	want(t, source(t, set, position.Position).read(t, 6),
		"create:0= create:late= create:2= create:3= create:4= create:9=")
}

// TestFormerPosition reads the objects of listing.lookback again, after a position in the format of earlier versions.
func TestFormerPosition(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, key := range []string{"old", "a", "b", "c"} {
		f.put(key, "", at.Add(time.Duration(i-1)*lookback/2))
	}
	reached, _ := json.Marshal(at.Add(lookback / 2))
	since, _ := json.Marshal(at)
	former := `{"modified":%s,"key":"b","version":"3","@resume":1,"bucket":"bkt","since":%s%s}`
	set := quick(f.addr(), "listing.lookback", lookback.String())
	want(t, source(t, set, record.Position(fmt.Sprintf(former, reached, since, `,"read":"AQID"`))).read(t, 3),
		"create:a= create:b= create:c=")
	want(t, source(t, set, record.Position(fmt.Sprintf(former, reached, since, ""))).read(t, 3),
		"create:a= create:b= create:c=")
}

// TestClockSetBack warns if the clock of the store is set back by more than listing.lookback.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	r := source(t, quick(f.addr(), "listing.lookback", "1s"), nil)
	f.put("a", "1", f.now())
	want(t, r.read(t, 1), "create:a=1")
	f.move(-time.Hour, 0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.source.Read(ctx)
	}()
	wait.For(t, "it warns", func() bool {
		return strings.Contains(r.source.(*s3.Source).Progress().Warning, "the clock of the store")
	})
	cancel()
	<-done
}
