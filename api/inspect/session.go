package inspect

import (
	"errors"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	closeTimeout = 500 * time.Millisecond // for the rest of a message when the server ends
	dropInterval = 5 * time.Second        // between two reports of dropped records
	pieceSize    = 16 << 10               // bytes of a message per write
)

// session is one client that sees records. The goroutine of its feed serves it, together with all other clients, and
// never waits for it. A client that does not keep up is behind, and has a goroutine of its own until it has received
// all bytes sent to it.
type session struct {
	wanted selection
	group  *group   // the sessions with the same filter
	lines  bool     // not a WebSocket
	under  *conn    // detached
	conn   net.Conn // under, or TLS over it
	in     []byte   // incomplete frame from the client

	behind   bool   // the client has yet to receive a message
	frame    *frame // the frame it has yet to receive, nil for none
	left     error  // why the session ended
	pinged   time.Time
	awaiting bool // the client has yet to answer the ping

	at       uint64    // number of the frame to read next
	expected uint64    // number of the record that follows the last one read
	polled   uint64    // records that had passed at the last poll
	missed   uint64    // dropped records that were not reported yet
	reported time.Time // time of the last report of dropped records
	shown    time.Time // time of the last record shown
	counted  time.Time // until this time each interval had a shown or missed record
}

// next returns the message that shows f, nil if f is not shown. A report of dropped records comes first.
func (s *session) next(f *frame, now time.Time) []byte {
	if dropped := s.report(now); dropped != nil {
		return dropped
	}
	s.at++
	s.expected = max(s.expected, f.number+1)
	if now.Sub(s.shown) < s.wanted.interval {
		return nil
	}
	s.shown, s.counted = now, now
	return s.bytes(&f.message)
}

// report returns the message with the number of dropped records, nil for none.
func (s *session) report(now time.Time) []byte {
	if s.missed == 0 || now.Sub(s.reported) < dropInterval {
		return nil
	}
	m := newMessage(append(strconv.AppendUint(newText(`{"dropped":`), s.missed, 10), '}'))
	s.missed, s.reported = 0, now
	return s.bytes(&m)
}

func (s *session) bytes(m *message) []byte {
	if s.lines {
		return m.line()
	}
	return m.socket()
}

// send writes as much of b as the client takes at once, and returns the rest. The connection may buffer some of the
// written bytes.
func (s *session) send(b []byte) (rest []byte, err error) {
	for len(b) > 0 && !s.under.behind() {
		n := min(len(b), pieceSize)
		if _, err := s.conn.Write(b[:n]); err != nil {
			return nil, err
		}
		b = b[n:]
	}
	return b, nil
}

// finish waits until the client has received the buffered bytes and rest.
func (s *session) finish(rest []byte) error {
	if err := s.under.flush(); err != nil || len(rest) == 0 {
		return err
	}
	s.under.waits = true
	defer func() { s.under.waits = false }()
	_, err := s.conn.Write(rest)
	return err
}

// receive reads input of the client, and returns the answer. After an error the session ends, once the answer is sent.
func (s *session) receive(buffer []byte) (answer []byte, err error) {
	n, err := s.conn.Read(buffer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	if s.lines {
		return nil, err
	}
	if n == 0 && len(s.in) == 0 {
		return nil, err
	}
	in := append(s.in, buffer[:n]...)
	for err == nil {
		var op byte
		var payload []byte
		if op, payload, in, err = nextFrame(in); err != nil {
			break
		}
		switch op {
		case opPing:
			answer = control(opPong, payload)
		case opPong:
			s.awaiting = false
		case opClose:
			return control(opClose, payload[:min(len(payload), 2)]), errLeft
		}
	}
	if s.in = nil; errors.Is(err, errIncomplete) {
		s.in, err = append(s.in, in...), nil
	}
	if wrong := (*closeError)(nil); errors.As(err, &wrong) {
		answer = closing(wrong.status, wrong.reason)
	}
	return answer, err
}

var (
	errLeft = errors.New("the client left")
	errDead = errors.New("the client does not answer")
)

// ping returns the ping to send, nil if none is due. It returns an error if the last ping was not answered.
func (s *session) ping(now time.Time, limits *Limits) ([]byte, error) {
	switch since := now.Sub(s.pinged); {
	case s.lines:
		return nil, nil
	case s.awaiting && since >= limits.Answer:
		return nil, errDead
	case s.awaiting, since < limits.Ping:
		return nil, nil
	}
	s.pinged, s.awaiting = now, true
	return control(opPing, nil), nil
}
