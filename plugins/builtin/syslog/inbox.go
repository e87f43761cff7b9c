package syslog

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// received is an unparsed message.
type received struct {
	remote, protocol string
	message          []byte
	cut              bool // the end of the message was truncated
}

// inbox holds received messages. It limits the number of unacknowledged messages, and the memory of unread ones.
type inbox struct {
	most   int
	buffer sdk.Buffer // memory budget of the host: messages of queue

	mu      sync.Mutex
	room    sync.Cond  // uses mu: messages were read or acknowledged, or the inbox is closed
	queue   []received // guarded by mu: unread messages
	held    int        // guarded by mu: number of unacknowledged messages
	dropped int64      // guarded by mu
	closed  bool       // guarded by mu
	arrived notify.Signal
}

func newInbox(most int, buffer sdk.Buffer) *inbox {
	b := &inbox{most: most, buffer: buffer, arrived: notify.NewSignal()}
	b.room.L = &b.mu
	return b
}

// put waits for room and queues the message. It returns false when the inbox is closed.
func (b *inbox) put(m received) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && !b.fits(m) {
		b.room.Wait()
	}
	if !b.closed {
		b.push(m)
	}
	return !b.closed
}

// fits reports whether there is room and memory for the message. A message always fits into the memory of an empty
// queue.
func (b *inbox) fits(m received) bool {
	return b.held < b.most && (len(b.queue) == 0 || len(m.message) <= b.buffer.Room())
}

// offer queues the message, or drops it when there is no room.
func (b *inbox) offer(m received) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(m) {
		b.dropped++
		return
	}
	b.push(m)
}

func (b *inbox) push(m received) {
	b.queue = append(b.queue, m)
	b.buffer.Add(len(m.message))
	b.held++
	b.arrived.Notify()
}

// take waits for unread messages and returns up to most messages.
func (b *inbox) take(ctx context.Context, most int) ([]received, error) {
	for {
		b.mu.Lock()
		n := min(most, len(b.queue))
		all := b.queue[:n:n]
		if b.queue = b.queue[n:]; len(b.queue) > 0 {
			b.arrived.Notify()
		} else {
			b.queue = nil
		}
		for _, m := range all {
			b.buffer.Add(-len(m.message))
		}
		b.room.Broadcast()
		b.mu.Unlock()
		if n > 0 {
			return all, nil
		}
		select {
		case <-b.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (b *inbox) ack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = max(0, b.held-n)
	b.room.Broadcast()
}

func (b *inbox) counts() (held, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.held), b.dropped
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.buffer.Close()
	b.room.Broadcast()
}

// frames splits a stream into messages: by octet counting if a message begins with its length, otherwise at newlines or
// NUL bytes.
type frames struct {
	r   *bufio.Reader
	max int
	cut bool // the last message was longer than max and is truncated
}

func newFrames(r io.Reader, most int) *frames {
	return &frames{r: bufio.NewReaderSize(r, 16<<10), max: most}
}

// next returns the next message. It may return both the bytes read so far and an error.
func (f *frames) next() ([]byte, error) {
	first, err := f.r.Peek(1)
	if err != nil {
		return nil, err
	}
	f.cut = false
	if first[0] >= '1' && first[0] <= '9' {
		return f.counted()
	}
	return f.line(nil)
}

// counted reads a message that follows its length. Digits that are not a valid length begin a line, for example from a
// sender that omits the priority.
func (f *frames) counted() ([]byte, error) {
	const digits = 9
	n := 0
	var begun []byte
	for i := 0; ; i++ {
		c, err := f.r.ReadByte()
		begun = append(begun, c)
		switch {
		case err != nil:
			return nil, err
		case c == ' ' && i > 0:
			f.cut = n > f.max
			b := make([]byte, min(n, f.max))
			if _, err := io.ReadFull(f.r, b); err != nil {
				return nil, err // a partial message does not count
			}
			_, err := f.r.Discard(n - len(b))
			return b, err
		case c < '0' || c > '9' || i >= digits:
			_ = f.r.UnreadByte() // unreads the byte read last
			return f.line(begun[:i])
		}
		n = 10*n + int(c-'0')
	}
}

// line reads a message up to the end of the line. b is its beginning.
func (f *frames) line(b []byte) (_ []byte, err error) {
	for {
		c, err := f.r.ReadByte()
		if err != nil {
			return b, err
		}
		if c == '\n' || c == 0 {
			return b, nil
		}
		if len(b) < f.max {
			b = append(b, c)
		} else {
			f.cut = true
		}
	}
}

// kernelDrops returns the number of packets that the kernel has dropped for the UDP socket at this address because they
// were not read in time.
func kernelDrops(a net.Addr) (n int64) {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return 0
	}
	for _, table := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		content, _ := os.ReadFile(table)
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) > 12 && fields[1] == procAddress(u, strings.HasSuffix(table, "6")) {
				drops, _ := strconv.ParseInt(fields[len(fields)-1], 10, 64)
				n += drops
			}
		}
	}
	return n
}

// procAddress returns an address in the format of /proc/net: words in the byte order of the machine, here little
// endian, in hexadecimal.
func procAddress(u *net.UDPAddr, six bool) string {
	ip := u.IP.To4()
	if six {
		ip = u.IP.To16()
	}
	var text strings.Builder
	for i := 0; i+4 <= len(ip); i += 4 {
		text.WriteString(strings.ToUpper(hex.EncodeToString([]byte{ip[i+3], ip[i+2], ip[i+1], ip[i]})))
	}
	return fmt.Sprintf("%s:%04X", text.String(), u.Port)
}
