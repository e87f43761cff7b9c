// Package peer bounds the memory that the other end of a connection can make this process allocate. The clients of
// databases and brokers allocate as many bytes as a length in a message announces, or use the length as an index. Some
// do so in their own goroutine, where a panic ends the process. A Conn therefore follows the framing of the protocol in
// front of the client, and fails before the client sees a message that announces too much or that is malformed.
package peer

import (
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"net"
	"runtime/debug"
	"sync"
)

// A Checker follows the messages of one protocol. Check is called with all bytes that the peer sends, in order and in
// pieces of any size, before the client gets them. It is not called again after an error. It may overwrite bytes that
// would make the client allocate too much, so that such a message does not end the connection.
type Checker interface {
	Check(p []byte) error
}

// An Error reports that a peer violated its protocol, or a limit on it.
type Error struct {
	Protocol string // such as "Redis"
	Reason   string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("cannot read the response of the %s server: %s", e.Protocol, e.Reason)
}

// Reader is a reader that checks the bytes read. After the first violation every read fails with the same error.
type Reader struct {
	from    io.Reader
	checker Checker

	mu     sync.Mutex // some clients' reads overlap with reads of an earlier goroutine
	failed error      // guarded by mu
}

// NewReader returns a Reader that checks the bytes read from r. With TLS, r must be the decrypted side.
func NewReader(r io.Reader, checker Checker) *Reader { return &Reader{from: r, checker: checker} }

// Read implements io.Reader. Nothing of a read that fails a check reaches the caller.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil && n > 0 {
		r.failed = r.checker.Check(p[:n])
	}
	if r.failed != nil {
		clear(p[:n])
		return 0, r.failed
	}
	return n, err
}

// Err returns the violation that reads fail with, nil if there was none.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Conn is a connection whose reads are checked. It is closed at the first violation.
type Conn struct {
	net.Conn
	checked *Reader
}

// NewConn returns a Conn that checks the bytes read from conn. With TLS, conn must be the decrypted side.
func NewConn(conn net.Conn, checker Checker) *Conn { return &Conn{conn, NewReader(conn, checker)} }

// Read implements net.Conn. Nothing of a read that fails a check reaches the caller.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.checked.Read(p)
	if err != nil && c.Err() != nil {
		_ = c.Conn.Close()
	}
	return n, err
}

// Err returns the violation that reads fail with, nil if there was none.
func (c *Conn) Err() error { return c.checked.Err() }

// LeftOut is the name of the header or property that replaces the excess ones of a message. A source skips such a
// message. Publishers cannot know the name.
var LeftOut = "conduit-left-out-" + rand.Text()

// maxMessage is the upper limit of the size of a message, regardless of the available memory: max_allowed_packet of
// MySQL may be 1 GiB.
const maxMessage = 1 << 30

// withMemory is the suffix of errors about MaxMessage.
const withMemory = " with the memory that there is"

// minMessage is the message size that is always permitted, regardless of the available memory.
const minMessage = 16 << 20

// MaxMessage returns the maximum size in bytes of a message of a peer: 1 GiB, but at most half of the memory limit of
// the process.
func MaxMessage() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return maxMessage
	}
	return min(maxMessage, max(minMessage, limit/2))
}
