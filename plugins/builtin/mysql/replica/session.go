package replica

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// Session logs in, with TLS where it is wanted, and returns the connection for a driver that logs in as if without TLS
// and without a password. So the answers can be checked behind TLS, before the driver has them: reads fail with a
// *peer.Error for one that announces more than there may be.
func Session(ctx context.Context, c *Config) (*DriverConn, error) {
	conn, err := connect(ctx, c, capsSession)
	if err != nil {
		return nil, err
	}
	err = conn.net.SetDeadline(time.Time{})
	if err == nil && conn.in.Buffered() > 0 { // an answer without a command
		err = ErrProtocol
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	checked := peer.NewMySQL(conn.net, conn.granted&capDeprecateEOF != 0)
	return &DriverConn{MySQLConn: checked, greeting: packet(0, greetingOf(conn.granted))}, nil
}

// DriverConn is a connection that greets, and lets in whoever answers.
type DriverConn struct {
	*peer.MySQLConn
	greeting []byte // not read yet
	answered bool
}

// Read implements net.Conn.
func (s *DriverConn) Read(p []byte) (int, error) {
	if len(s.greeting) == 0 {
		return s.MySQLConn.Read(p)
	}
	n := copy(p, s.greeting)
	s.greeting = s.greeting[n:]
	return n, nil
}

// Write implements net.Conn. A driver writes its answer at once.
func (s *DriverConn) Write(p []byte) (int, error) {
	if s.answered {
		return s.MySQLConn.Write(p)
	}
	const autocommit = 2
	s.answered, s.greeting = true, packet(2, []byte{0, 0, 0, autocommit, 0, 0, 0})
	return len(p), nil
}

func packet(number byte, payload []byte) []byte {
	return append([]byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), number}, payload...)
}

// greetingOf returns a greeting with these capabilities.
func greetingOf(capabilities uint32) []byte {
	const scramble = "conduit-conduit-cond" // of 20 bytes; there is no password to prove
	b := append([]byte{10}, "8.0.0\x00\x00\x00\x00\x00"...)
	b = append(append(b, scramble[:8]...), 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(capabilities))
	b = append(b, utf8mb4, 2, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(capabilities>>16))
	b = append(append(b, byte(len(scramble)+1)), make([]byte, 10)...)
	b = append(append(b, scramble[8:]...), 0)
	return append(append(b, pluginNative...), 0)
}
