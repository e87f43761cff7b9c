package mqtt

import (
	"bufio"
	"net"
	"sync"
	"time"
)

const (
	readAhead   = 16 << 10
	maxBuffered = 64 << 10 // bytes waiting to be sent
	closeWithin = time.Second
)

// buffered is a connection that reads ahead and collects writes while it is sending. The library reads and writes a
// packet in several pieces.
type buffered struct {
	net.Conn
	sync.Mutex // held by the library while it writes a packet
	reader     *bufio.Reader
	ended      chan struct{} // closed when send has returned

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte // guarded by mu: bytes to send
	sending bool   // guarded by mu
	closed  bool   // guarded by mu
	err     error  // guarded by mu: why sending has ended
}

// newBuffered returns c with buffers. The caller must close it.
func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, reader: bufio.NewReaderSize(c, readAhead), ended: make(chan struct{})}
	b.changed.L = &b.mu
	go b.send()
	return b
}

// Read returns received bytes.
func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

// Write queues p for sending. It blocks while the queue is full.
func (b *buffered) Write(p []byte) (written int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if b.err != nil {
			return written, b.err
		}
		n := min(len(p)-written, maxBuffered-len(b.waiting))
		b.waiting = append(b.waiting, p[written:written+n]...)
		written += n
		b.changed.Broadcast()
		if written == len(p) {
			return written, nil
		}
		b.changed.Wait()
	}
}

// Sent blocks until every queued byte is sent, or returns the error that prevents it.
func (b *buffered) Sent() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.err == nil && (len(b.waiting) > 0 || b.sending) {
		b.changed.Wait()
	}
	return b.err
}

// send sends queued bytes until the connection is closed or lost.
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
	_ = b.Conn.Close() // readers notice
}

// Close sends queued bytes for at most closeWithin, then closes the connection.
func (b *buffered) Close() error {
	err := b.SetWriteDeadline(time.Now().Add(closeWithin))
	b.mu.Lock()
	b.closed = true
	b.changed.Broadcast()
	b.mu.Unlock()
	<-b.ended
	return err
}
