package peer

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
)

// maxColumns is the maximum number of columns of a table or result in MySQL and MariaDB.
const maxColumns = 4096

// largestPacket is the maximum size of a packet. A longer message has several packets, and the last packet is shorter.
const largestPacket = 1<<24 - 1

// MySQL checks the answers to commands, as defined at
// https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html. It follows a connection from the end of the
// login on, in a session without compression and local files.
type MySQL struct {
	deprecateEOF bool

	mu      sync.Mutex // a session may be ended while an answer is read
	head    []byte     // guarded by mu: incomplete beginning of a packet
	left    int        // guarded by mu: bytes that remain of the packet
	last    bool       // guarded by mu: the packet ends its message
	begun   bool       // guarded by mu: the message has packets before this one
	message []byte     // guarded by mu: the beginning of the message
	size    int64      // guarded by mu: size of the message so far
	expects expected   // guarded by mu
	skip    int        // guarded by mu: messages to come that describe columns
	binary  bool       // guarded by mu: the rows belong to a prepared statement
}

// expected is the kind of the next message.
type expected int

const (
	result   expected = iota // the beginning of an answer
	prepared                 // the beginning of the answer to a command that prepares a statement
	columns                  // skip messages, followed by a result
	rowsNext                 // skip messages, followed by rows
	rows
)

// NewMySQL returns a connection on which the answers are checked. deprecateEOF reports whether the session has the
// capability CLIENT_DEPRECATE_EOF.
func NewMySQL(conn net.Conn, deprecateEOF bool) *MySQLConn {
	checker := &MySQL{deprecateEOF: deprecateEOF}
	return &MySQLConn{NewConn(conn, checker), checker}
}

// MySQLConn is a connection that checks the bytes read from it. It also reads the commands, which determine the format
// of the answers.
type MySQLConn struct {
	*Conn
	checker *MySQL
}

// Write implements net.Conn.
func (c *MySQLConn) Write(p []byte) (int, error) {
	c.checker.sent(p)
	return c.Conn.Write(p)
}

func mysqlError(format string, args ...any) error {
	return &Error{"MySQL", fmt.Sprintf(format, args...)}
}

// Commands whose answers differ.
const (
	commandPrepare = 0x16
	commandExecute = 0x17
)

// sent follows the writes of the client: whole packets, the first one of a command with number 0.
func (m *MySQL) sent(p []byte) {
	const header = 4
	if len(p) <= header || p[3] != 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expects, m.skip, m.binary = result, 0, p[header] == commandExecute
	if p[header] == commandPrepare {
		m.expects = prepared
	}
}

// Check implements Checker.
func (m *MySQL) Check(p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(p) > 0 {
		if len(m.head) < 4 { // begin a packet
			n := min(4-len(m.head), len(p))
			m.head, p = append(m.head, p[:n]...), p[n:]
			if len(m.head) < 4 {
				return nil
			}
			m.left = int(m.head[0]) | int(m.head[1])<<8 | int(m.head[2])<<16
			m.last = m.left < largestPacket
			if m.left == 0 && !m.begun {
				return mysqlError("a packet is empty")
			}
			if m.size += int64(m.left); m.size > MaxMessage() {
				return mysqlError("it announces a message of %d bytes, and at most %d are read"+withMemory, m.size,
					MaxMessage())
			}
		}
		n := min(m.left, len(p))
		const kept = 16 // bytes, longer than any prefix that identifies a message
		m.message = append(m.message, p[:min(n, kept-len(m.message))]...)
		p, m.left = p[n:], m.left-n
		if m.left > 0 {
			return nil
		}
		if m.head, m.begun = m.head[:0], true; m.last {
			if err := m.ended(); err != nil {
				return err
			}
			m.message, m.size, m.begun = m.message[:0], 0, false
		}
	}
	return nil
}

// First bytes of messages.
const (
	isOK        = 0x00
	isLocalFile = 0xfb
	isEOF       = 0xfe
	isError     = 0xff
)

// ended takes a complete message.
func (m *MySQL) ended() error {
	switch first := m.message[0]; m.expects {
	case result:
		return m.result(first)
	case prepared:
		return m.prepared(first)
	case columns, rowsNext:
		if m.skip--; m.skip == 0 && m.expects == columns {
			m.expects = result
		} else if m.skip == 0 {
			m.expects = rows
		}
	case rows:
		// A row in text form may begin with 0xfe as well, if its value has more bytes than fit into a packet.
		if first == isError || first == isEOF && (m.binary || m.size <= largestPacket) || m.binary && first != isOK {
			m.expects = result // of the same command, if there is another one
		}
	}
	return nil
}

// result takes the beginning of an answer.
func (m *MySQL) result(first byte) error {
	switch first {
	case isOK, isError:
		return nil
	case isLocalFile:
		return mysqlError("it asks for a file of this host")
	}
	n, ok := lengthEncoded(m.message)
	if !ok || n > maxColumns {
		return mysqlError("it announces a result of %d columns, and at most %d are read", n, maxColumns)
	}
	if n > 0 {
		m.expects, m.skip = rowsNext, m.descriptions(int(n))
	}
	return nil
}

// prepared takes the beginning of the answer to a command that prepares a statement: its number, and the numbers of
// columns and parameters.
func (m *MySQL) prepared(first byte) error {
	m.expects = result
	if first != isOK {
		return nil
	}
	const length = 9
	if len(m.message) < length {
		return mysqlError("the description of a statement is too short")
	}
	count := func(at int) int { return m.descriptions(int(binary.LittleEndian.Uint16(m.message[at:]))) }
	m.skip = count(5) + count(7)
	if m.skip > 0 {
		m.expects = columns
	}
	return nil
}

// descriptions returns how many messages describe n columns.
func (m *MySQL) descriptions(n int) int {
	if n > 0 && !m.deprecateEOF {
		return n + 1
	}
	return n
}

// lengthEncoded returns the number at the beginning of b.
func lengthEncoded(b []byte) (n uint64, ok bool) {
	var size int
	switch b[0] {
	case 0xfc:
		size = 3
	case 0xfd:
		size = 4
	case 0xfe:
		size = 9
	default:
		return uint64(b[0]), true
	}
	if len(b) < size {
		return 0, false
	}
	for i := size - 1; i > 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n, true
}
