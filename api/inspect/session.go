package inspect

import (
	"strconv"
	"time"
)

const (
	closeTimeout = 500 * time.Millisecond // for a client to receive the end of a session
	dropInterval = 5 * time.Second        // between two reports of dropped records
)

// session shows records to one client.
type session struct {
	feed     *feed
	group    *group        // the sessions with the same filter
	interval time.Duration // minimum time between two records

	// Guarded by feed.mu.
	frame    *frame    // being sent, nil for none
	at       uint64    // number of the frame to read next
	expected uint64    // number of the record that follows the last one read
	missed   uint64    // dropped records that were not reported yet
	reported time.Time // time of the last report of dropped records
	shown    time.Time // time of the last record shown
	counted  time.Time // until this time each interval had a shown or missed record
}

// always is ready to be received from.
var always = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// run sends messages to the client until either side ends the session.
func (s *session) run(c client) {
	ping, report := time.NewTicker(s.feed.hub.Limits.Ping), time.NewTicker(dropInterval)
	defer ping.Stop()
	defer report.Stop()
	for {
		message, changed := s.next(time.Now())
		if message != nil && c.send(message) != nil {
			return
		}
		select {
		case <-changed:
		case <-report.C:
		case <-ping.C:
			if c.ping() != nil {
				return
			}
		case <-c.left():
			return
		case <-s.feed.ending:
			c.close(s.feed.why)
			return
		}
	}
}

// next returns the next message for the client, nil if there is none yet, and a channel that is closed when there may
// be another. A report of dropped records comes before the next record.
func (s *session) next(now time.Time) (message []byte, changed <-chan struct{}) {
	f, g := s.feed, s.group
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release(s.frame)
	s.frame = nil
	for {
		if s.at = max(s.at, g.first); s.at == g.next {
			if g.settled > s.expected {
				f.miss(s, g.settled, now)
			}
			if message = s.report(now); message != nil {
				return message, always
			}
			return nil, g.changed
		}
		fr := g.frames[s.at-g.first]
		if fr.number > s.expected {
			f.miss(s, fr.number, now)
		}
		if message = s.report(now); message != nil {
			return message, always
		}
		due := now.Sub(s.shown) >= s.interval
		if due {
			s.shown, s.counted = now, now
			s.frame = fr
			fr.users++
		}
		s.at++
		s.expected = max(s.expected, fr.number+1)
		f.trim(g)
		if due {
			return fr.text, always
		}
	}
}

// report returns the message with the number of dropped records, nil for none.
func (s *session) report(now time.Time) []byte {
	if s.missed == 0 || now.Sub(s.reported) < dropInterval {
		return nil
	}
	message := append(strconv.AppendUint([]byte(`{"dropped":`), s.missed, 10), '}')
	s.missed, s.reported = 0, now
	return message
}
