package inspect

import (
	"testing"
	"time"
)

// However often dropped records are counted, a session that wants to see one each interval
// missed at most one each interval.
func TestMissedOncePerInterval(t *testing.T) {
	t.Parallel()
	const interval = 50 * time.Millisecond
	began := time.Now()
	f, s := &feed{}, &session{shown: began, counted: began}
	s.wanted.interval = interval
	for passed := uint64(100); passed <= 1000; passed += 100 {
		f.miss(s, passed, began.Add(time.Duration(passed)*time.Millisecond))
	}
	// 20 intervals, the last of which is that of the record to come.
	if s.missed != 19 || f.dropped.Load() != 19 {
		t.Errorf("%d records missed, %d dropped, of 19", s.missed, f.dropped.Load())
	}
	end := began.Add(time.Second)
	for s.expected == 1000 {
		s.next(&frame{message: newMessage(newText(`{}`)), number: 1000}, end) // says what was missed, then shows the frame
	}
	f.miss(s, 2000, end.Add(3*interval))
	if s.missed != 2 {
		t.Errorf("%d records missed in two intervals after the one that was seen", s.missed)
	}
}
