package binlog

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// Config holds the settings for connecting to a server.
type Config struct {
	Addr           string // host and port
	User, Password string
	TLS            *tls.Config   // nil: no TLS
	Timeout        time.Duration // for connecting, and for each answer
	Database       string        // default database, for Session

	// Dial opens the connection; nil means TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Conn is a session. Except for Close, its methods must be called from one goroutine.
type Conn struct {
	net     net.Conn
	in      *bufio.Reader
	seq     byte
	timeout time.Duration
	secure  bool
	buf     []byte
	most    int64  // maximum bytes of a message
	granted uint32 // capabilities of the session
}

// Error is an error packet of the server.
type Error struct {
	Number  uint16
	State   string
	Message string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("Error %d (%s): %s", e.Number, e.State, e.Message) }

// ErrProtocol reports an answer that violates the protocol.
var ErrProtocol = errors.New("the response is not of the MySQL protocol")

// Connect logs in.
func Connect(ctx context.Context, c *Config) (*Conn, error) { return connect(ctx, c, capsReplica) }

// maxLogin is the maximum size of a message during login: a greeting, a public key, an error.
const maxLogin = 64 << 10

func connect(ctx context.Context, c *Config, capabilities uint32) (*Conn, error) {
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.Timeout}).DialContext
	}
	conn, err := dial(ctx, "tcp", c.Addr)
	if err != nil {
		return nil, err
	}
	r := &Conn{net: conn, in: bufio.NewReaderSize(conn, 64<<10), timeout: c.Timeout, most: maxLogin}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = r.login(ctx, c, capabilities)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	r.most = peer.MaxMessage()
	return r, nil
}

// Close ends the session. If a method is running, it returns an error.
func (c *Conn) Close() { _ = c.net.Close() }

// Capability flags.
const (
	capLongPassword = 1 << 0
	capFoundRows    = 1 << 1
	capLongFlag     = 1 << 2
	capDatabase     = 1 << 3
	capProtocol41   = 1 << 9
	capTLS          = 1 << 11
	capTransactions = 1 << 13
	capSecure       = 1 << 15
	capMultiResults = 1 << 17
	capPluginAuth   = 1 << 19
	capLenencAuth   = 1 << 21
	capDeprecateEOF = 1 << 24

	capsReplica = capLongPassword | capLongFlag | capProtocol41 | capTransactions | capSecure | capPluginAuth |
		capLenencAuth
	capsSession = capsReplica | capFoundRows | capMultiResults | capDeprecateEOF
)

const utf8mb4 = 45

// maxPacket is the maximum payload of a packet; a larger message takes several packets.
const maxPacket = 1<<24 - 1

// keptBuffer is the largest buffer that is reused for the next message.
const keptBuffer = 1 << 20

// read returns the next message. It is valid until the next call.
func (c *Conn) read() ([]byte, error) {
	if c.buf = c.buf[:0]; cap(c.buf) > keptBuffer {
		c.buf = nil
	}
	for {
		var head [4]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return nil, err
		}
		n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		c.seq = head[3] + 1
		at := len(c.buf)
		if size := int64(at + n); size > c.most {
			reason := fmt.Sprintf("it announces a message of %d bytes, and at most %d are read", size, c.most)
			return nil, &peer.Error{Protocol: "MySQL", Reason: reason}
		}
		c.buf = slices.Grow(c.buf, n)[:at+n]
		if _, err := io.ReadFull(c.in, c.buf[at:]); err != nil {
			return nil, err
		}
		if n < maxPacket {
			return c.buf, nil
		}
	}
}

// answer reads a message within the timeout. It returns an error packet as an *Error.
func (c *Conn) answer() ([]byte, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	b, err := c.read()
	if err != nil {
		return nil, err
	}
	return b, errorOf(b)
}

func errorOf(b []byte) error {
	if len(b) == 0 {
		return ErrProtocol
	}
	if b[0] != 0xff || len(b) < 3 {
		return nil
	}
	e := &Error{Number: binary.LittleEndian.Uint16(b[1:]), State: "HY000"}
	b = b[3:]
	if len(b) >= 6 && b[0] == '#' {
		e.State, b = string(b[1:6]), b[6:]
	}
	e.Message = string(b)
	return e
}

func (c *Conn) write(payload []byte) error {
	if len(payload) >= maxPacket {
		return errors.New("the message is too long")
	}
	head := []byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), c.seq}
	c.seq++
	if err := c.net.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	_, err := c.net.Write(append(head, payload...))
	return err
}

// Commands.
const (
	commandQuery    = 0x03
	commandDump     = 0x12
	commandRegister = 0x15
	commandDumpGTID = 0x1e
)

func (c *Conn) command(payload []byte) error {
	c.seq = 0
	return c.write(payload)
}

// Exec runs a statement without a result set.
func (c *Conn) Exec(sql string) error {
	if err := c.command(append([]byte{commandQuery}, sql...)); err != nil {
		return err
	}
	b, err := c.answer()
	if err == nil && b[0] != 0 {
		err = ErrProtocol
	}
	return err
}

// Register registers the session as a replica with this id. It requires the privilege REPLICATION SLAVE.
func (c *Conn) Register(id uint32, name string) error {
	name = name[:min(len(name), 60)]
	b := binary.LittleEndian.AppendUint32([]byte{commandRegister}, id)
	b = append(append(b, byte(len(name))), name...)
	b = append(b, make([]byte, 2+2+4+4)...) // user, password, port, rank, id of the master
	if err := c.command(b); err != nil {
		return err
	}
	_, err := c.answer()
	return err
}

// Dump requests the events of a file from an offset or, from MariaDB after SET @slave_connect_state, the events after
// that state.
func (c *Conn) Dump(id uint32, file string, pos uint32) error {
	b := binary.LittleEndian.AppendUint32([]byte{commandDump}, pos)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, id)
	return c.command(append(b, file...))
}

// DumpGTID requests from MySQL the events of all transactions that are not in set, which GTIDSet.Encode encoded.
func (c *Conn) DumpGTID(id uint32, set []byte) error {
	b := []byte{commandDumpGTID, 0, 0}
	b = binary.LittleEndian.AppendUint32(b, id)
	b = binary.LittleEndian.AppendUint32(b, 0) // no file
	b = binary.LittleEndian.AppendUint64(b, 4)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(set)))
	return c.command(append(b, set...))
}

// Buffered reports whether received data is waiting in the buffer.
func (c *Conn) Buffered() bool { return c.in.Buffered() > 4 }

// Event returns the next event, valid until the next call. It fails if none arrives within silence, which also detects
// a half-open connection: a server with nothing to send sends heartbeats.
func (c *Conn) Event(silence time.Duration) ([]byte, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return nil, err
	}
	b, err := c.read()
	if err != nil {
		return nil, err
	}
	if err := errorOf(b); err != nil {
		return nil, err
	}
	switch {
	case b[0] == 0:
		return b[1:], nil
	case b[0] == 0xfe:
		return nil, fmt.Errorf("the server ended the log: %w", io.ErrUnexpectedEOF)
	}
	return nil, ErrProtocol
}
