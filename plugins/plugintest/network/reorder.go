package network

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxLate is the maximum delay of a reordered message, and of the second copy of a duplicated one.
const maxLate = 30 * time.Millisecond

// NewNATSProxy returns a proxy to the NATS server at target, which can Reorder the messages. It is closed when the test
// ends.
func NewNATSProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := NewProxy(t, target)
	p.set(func() { p.relay = p.messages })
	return p
}

// Reorder duplicates one message in ten from now on, and moves one in ten behind later ones, in both directions.
func (p *Proxy) Reorder() { p.set(func() { p.reordered = true }) }

// Reordered returns how many messages were duplicated, and how many delayed.
func (p *Proxy) Reordered() (again, late int64) { return p.again.Load(), p.late.Load() }

// Observe makes the proxy call see with every further message on further connections: with a message of a client each
// time just before it is forwarded, with a message of the server as soon as it arrives. Several goroutines may call
// see, which must not keep the message.
func (p *Proxy) Observe(see func(ofServer bool, message []byte)) { p.set(func() { p.observe = see }) }

// messages forwards the frames of NATS' protocol.
func (p *Proxy) messages(to, from net.Conn) {
	r := bufio.NewReader(from)
	ofServer := from.RemoteAddr().String() == p.target
	p.mu.Lock()
	see := p.observe
	p.mu.Unlock()
	observe := func(frame []byte, isMessage, now bool) {
		if see != nil && isMessage && now {
			see(ofServer, frame)
		}
	}
	var mu sync.Mutex
	for {
		frame, isMessage, err := readFrame(r)
		write := func(frame []byte) error {
			mu.Lock()
			defer mu.Unlock()
			observe(frame, isMessage, !ofServer)
			_, err := to.Write(frame)
			return err
		}
		observe(frame, isMessage, ofServer)
		p.pass()
		if err != nil || p.forward(frame, isMessage, write) != nil {
			return
		}
	}
}

// forward forwards a frame, now, later, or both.
func (p *Proxy) forward(frame []byte, isMessage bool, write func([]byte) error) error {
	p.mu.Lock()
	reordered := p.reordered && isMessage
	p.mu.Unlock()
	kind := 2
	if reordered {
		kind = rand.IntN(10)
	}
	if kind < 2 {
		time.AfterFunc(rand.N(maxLate), func() { _ = write(frame) }) // lost if the connection has ended
	}
	switch kind {
	case 0:
		p.late.Add(1)
		return nil
	case 1:
		p.again.Add(1)
	}
	return write(frame)
}

// readFrame reads the next frame: a line and, if it is a message, the payload, whose size is the last number in the
// line.
func readFrame(r *bufio.Reader) (frame []byte, isMessage bool, err error) {
	if frame, err = r.ReadBytes('\n'); err != nil {
		return nil, false, err
	}
	fields := strings.Fields(string(frame))
	if len(fields) == 0 {
		return frame, false, nil
	}
	switch strings.ToUpper(fields[0]) {
	case "PUB", "HPUB", "MSG", "HMSG":
	default:
		return frame, false, nil
	}
	size, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return nil, false, fmt.Errorf("cannot read the size of a message: %w", err)
	}
	body := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, false, err
	}
	return append(frame, body...), true, nil
}
