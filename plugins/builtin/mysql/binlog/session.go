package binlog

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// Session logs in, with TLS if configured, and returns a connection for a driver that logs in without TLS and without a
// password. This allows checking the answers after decryption and before the driver parses them: Read fails with a
// *peer.Error if an answer announces more than the limit.
func Session(ctx context.Context, c *Config) (*DriverConn, error) {
	conn, err := connect(ctx, c, capsSession)
	if err != nil {
		return nil, err
	}
	err = conn.net.SetDeadline(time.Time{})
	if err == nil && conn.in.Buffered() > 0 { // the server sent an answer without a command
		err = ErrProtocol
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	checked := peer.NewMySQL(conn.net, conn.granted&capDeprecateEOF != 0)
	return &DriverConn{MySQLConn: checked, greeting: packet(0, greetingOf(conn.granted))}, nil
}

// DriverConn is a connection that sends the driver a greeting and accepts any login.
type DriverConn struct {
	*peer.MySQLConn
	greeting []byte // unread part
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

// Write implements net.Conn. A driver writes its login packet in one call.
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
	const scramble = "conduit-conduit-cond" // 20 bytes; there is no password to prove
	b := append([]byte{10}, "8.0.0\x00\x00\x00\x00\x00"...)
	b = append(append(b, scramble[:8]...), 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(capabilities))
	b = append(b, utf8mb4, 2, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(capabilities>>16))
	b = append(append(b, byte(len(scramble)+1)), make([]byte, 10)...)
	b = append(append(b, scramble[8:]...), 0)
	return append(append(b, pluginNative...), 0)
}
