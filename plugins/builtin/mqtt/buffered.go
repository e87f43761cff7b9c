package mqtt

import (
	"bufio"
	"net"
	"sync"
	"time"
)

const (
	readAhead    = 16 << 10
	mostBuffered = 64 << 10 // bytes that wait to be sent
	closeWithin  = time.Second
)

// buffered is a connection that reads ahead, and sends what was written while it was sending at once: the library
// reads and writes packets in pieces.
type buffered struct {
	net.Conn
	sync.Mutex // held by the library while it writes a packet
	reader     *bufio.Reader
	ended      chan struct{} // closed when nothing is sent any more

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte // guarded by mu: to be sent
	sending bool   // guarded by mu
	closed  bool   // guarded by mu
	err     error  // guarded by mu: why nothing can be sent any more
}

// newBuffered returns c with buffers. It must be closed.
func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, reader: bufio.NewReaderSize(c, readAhead), ended: make(chan struct{})}
	b.changed.L = &b.mu
	go b.send()
	return b
}

// Read reads what was received.
func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

// Write has p sent, when there is room for it.
func (b *buffered) Write(p []byte) (written int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if b.err != nil {
			return written, b.err
		}
		n := min(len(p)-written, mostBuffered-len(b.waiting))
		b.waiting = append(b.waiting, p[written:written+n]...)
		written += n
		b.changed.Broadcast()
		if written == len(p) {
			return written, nil
		}
		b.changed.Wait()
	}
}

// Sent returns when all that was written was sent, or why it cannot be.
func (b *buffered) Sent() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.err == nil && (len(b.waiting) > 0 || b.sending) {
		b.changed.Wait()
	}
	return b.err
}

// send sends what is written until the connection is closed or lost.
func (b *buffered) send() {
	defer close(b.ended)
	b.mu.Lock()
	defer b.mu.Unlock()
	var spare []byte
	for b.err == nil {
		if len(b.waiting) == 0 {
			if b.closed {
				b.err = net.ErrClosed
				break
			}
			b.changed.Wait()
			continue
		}
		p := b.waiting
		b.waiting, b.sending = spare[:0], true
		b.changed.Broadcast()
		b.mu.Unlock()
		_, err := b.Conn.Write(p)
		b.mu.Lock()
		spare, b.sending, b.err = p, false, err
		b.changed.Broadcast()
	}
	b.changed.Broadcast()
	_ = b.Conn.Close() // who reads notices
}

// Close sends what was written, if that takes no long time, and closes the connection.
func (b *buffered) Close() error {
	err := b.SetWriteDeadline(time.Now().Add(closeWithin))
	b.mu.Lock()
	b.closed = true
	b.changed.Broadcast()
	b.mu.Unlock()
	<-b.ended
	return err
}
