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

// mostLate is how late a message is at most that others overtake, and the second copy of one that comes twice.
const mostLate = 30 * time.Millisecond

// NewNATSProxy returns a proxy to the NATS server at target, which can Muddle what it passes on. It is closed when the
// test ends.
func NewNATSProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := NewProxy(t, target)
	p.set(func() { p.relay = p.messages })
	return p
}

// Muddle has one message in ten come twice from now on, and one in ten after later ones, in both directions.
func (p *Proxy) Muddle() { p.set(func() { p.muddled = true }) }

// Muddled returns how many messages were passed on twice, and how many later than they came.
func (p *Proxy) Muddled() (again, late int64) { return p.again.Load(), p.late.Load() }

// Observe has see called with every message that comes from now on, on connections made from now on: with one of a client
// each time that it is about to be passed on, with one of the server as soon as it came. It may be called by several
// goroutines, and must not keep the message.
func (p *Proxy) Observe(see func(ofServer bool, message []byte)) { p.set(func() { p.observe = see }) }

// messages passes on the frames of NATS' protocol.
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

// forward passes on a frame, now, later, or both.
func (p *Proxy) forward(frame []byte, isMessage bool, write func([]byte) error) error {
	p.mu.Lock()
	muddled := p.muddled && isMessage
	p.mu.Unlock()
	kind := 2
	if muddled {
		kind = rand.IntN(10)
	}
	if kind < 2 {
		time.AfterFunc(rand.N(mostLate), func() { _ = write(frame) }) // of a connection that ended it is lost
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

// readFrame reads the next frame: a line, and what its last number says is behind it, when it is a message.
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
