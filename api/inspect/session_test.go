package inspect

import (
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// A session that wants to see a record per interval missed at most one per interval, however often dropped records are
// counted.
func TestMissedOncePerInterval(t *testing.T) {
	t.Parallel()
	const interval = 50 * time.Millisecond
	began := time.Now()
	f, g := newFeed(&Hub{}, "a:gen"), &group{changed: make(chan struct{})}
	s := &session{feed: f, group: g, interval: interval, shown: began, counted: began}
	g.sessions = []*session{s}
	for passed := uint64(100); passed <= 1000; passed += 100 {
		f.miss(s, passed, began.Add(time.Duration(passed)*time.Millisecond))
	}
	// 20 intervals, where the last one belongs to the next record.
	if s.missed != 19 || f.dropped.Load() != 19 {
		t.Errorf("%d records missed, %d dropped, of 19", s.missed, f.dropped.Load())
	}
	end := began.Add(time.Second)
	f.push(g, &frame{text: []byte(`{}`), number: 1000})
	for s.expected == 1000 {
		s.next(end) // reports the drops, then shows the frame
	}
	f.miss(s, 2000, end.Add(3*interval))
	if s.missed != 2 {
		t.Errorf("%d records missed in two intervals after the one that was seen", s.missed)
	}
}

// A record that is slow to copy, such as a large one on a busy machine, is not reported as dropped before it is shown.
func TestOfferedIsNotMissed(t *testing.T) {
	t.Parallel()
	f := newFeed(&Hub{}, "a:gen")
	s := f.begin(selection{})
	g := s.group
	settle := func() {
		f.settle()
		f.settle()
		s.next(time.Now())
	}
	one := record.NewBatch([]record.Record{{Position: record.Position("p")}})
	f.offer(g, 1, 1, one.Size(), func(int) (*record.Batch, error) {
		settle()
		return one, nil
	})
	settle()
	if s.missed != 0 || f.dropped.Load() != 0 {
		t.Errorf("%d records missed, %d dropped, while one is offered", s.missed, f.dropped.Load())
	}
	f.publish(<-f.in)
	settle()
	if s.at != 1 || g.next != 1 || f.dropped.Load() != 0 {
		t.Errorf("the session is at %d of %d, and %d records were dropped", s.at, g.next, f.dropped.Load())
	}
	g.matched.Add(3)
	settle()
	if f.dropped.Load() != 3 {
		t.Errorf("%d records dropped of the three that nothing offers", f.dropped.Load())
	}
}

// TestSessionsLeaveFiles leaves most file descriptors to the rest of the agent, however few there are.
func TestSessionsLeaveFiles(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64]int64{256: 64, 1024: 256, 4096: 1024, 1 << 14: manySessions,
		1 << 63: manySessions} {
		if n := maxSessions(files); n != want {
			t.Errorf("there may be %d sessions with %d files, want %d", n, files, want)
		}
	}
	h := &Hub{}
	h.total.Store(maxSessions(files()))
	if h.join("p:c", selection{}) != nil {
		t.Error("one more session begins")
	}
}
