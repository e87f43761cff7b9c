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
	f, s := &feed{}, &session{shown: began, counted: began}
	s.wanted.interval = interval
	for passed := uint64(100); passed <= 1000; passed += 100 {
		f.miss(s, passed, began.Add(time.Duration(passed)*time.Millisecond))
	}
	// 20 intervals, where the last one belongs to the next record.
	if s.missed != 19 || f.dropped.Load() != 19 {
		t.Errorf("%d records missed, %d dropped, of 19", s.missed, f.dropped.Load())
	}
	end := began.Add(time.Second)
	for s.expected == 1000 {
		s.next(&frame{message: newMessage(newText(`{}`)), number: 1000}, end) // reports the drops, then shows the frame
	}
	f.miss(s, 2000, end.Add(3*interval))
	if s.missed != 2 {
		t.Errorf("%d records missed in two intervals after the one that was seen", s.missed)
	}
}

// A record that is slow to copy, such as a large one on a busy machine, is not reported as dropped before it is shown.
func TestOfferedIsNotMissed(t *testing.T) {
	t.Parallel()
	f, g := newFeed(&Hub{}, "a:gen"), &group{}
	s := &session{group: g, under: &conn{}, reported: time.Now()} // nothing is sent
	one := record.NewBatch([]record.Record{{Position: record.Position("p")}})
	f.offer(g, 1, 1, one.Size(), func(int) (*record.Batch, error) {
		f.reportMissed(s, time.Now())
		f.reportMissed(s, time.Now())
		return one, nil
	})
	f.reportMissed(s, time.Now())
	if s.missed != 0 || f.dropped.Load() != 0 {
		t.Errorf("%d records missed, %d dropped, while one is offered", s.missed, f.dropped.Load())
	}
	f.publish(<-f.in)
	f.reportMissed(s, time.Now())
	if s.at != 0 || g.next != 1 || s.missed != 0 {
		t.Errorf("the session is at %d of %d and missed %d", s.at, g.next, s.missed)
	}
}

// TestSessionsLeaveFiles leaves most file descriptors to the rest of the agent, however few there are.
func TestSessionsLeaveFiles(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64]int64{256: 64, 1024: 256, 4096: 1024, 1 << 14: maxSessions, 1 << 63: maxSessions} {
		if n := sessions(files); n != want {
			t.Errorf("there may be %d sessions with %d files, want %d", n, files, want)
		}
	}
	h := &Hub{}
	h.total.Store(sessions(files()))
	if h.join("p:c", &session{}) != nil {
		t.Error("one more session begins")
	}
}
