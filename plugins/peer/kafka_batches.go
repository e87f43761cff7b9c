package peer

import (
	"encoding/binary"
	"net"
)

// KafkaBatchHeader is the size in bytes of the header of a batch of messages, as
// https://kafka.apache.org/documentation/#recordbatch has it.
const KafkaBatchHeader = 61

// A BatchFunc is called with the header of each complete batch in the answers to fetches, before the client gets it. It
// may change the header. earlier is the number of messages that the earlier batches of the same answer announce.
type BatchFunc func(header []byte, earlier int64)

// batches follows the batches of a partition in an answer.
type batches struct {
	call    BatchFunc // nil: batches are not followed
	left    int64     // bytes that remain of all
	batch   int64     // bytes that remain of the one that was begun
	earlier int64     // messages announced in the answer so far
	unread  int       // bytes at the end of the last check that are the beginning of a header
}

// follow takes the next bytes of the batches, and returns how many. It leaves the incomplete beginning of a header.
func (b *batches) follow(p []byte) int {
	const short = 17 // bytes up to the version of the format
	if b.batch == 0 {
		if b.left < KafkaBatchHeader {
			b.batch = b.left
		} else if len(p) < KafkaBatchHeader {
			b.unread = len(p)
			return 0
		} else if length := 12 + int64(int32(binary.BigEndian.Uint32(p[8:]))); length < short || length > b.left {
			b.batch = b.left // the client ignores a truncated batch, and everything after it
		} else if b.batch = length; p[short-1] == 2 && length >= KafkaBatchHeader {
			n := int64(int32(binary.BigEndian.Uint32(p[KafkaBatchHeader-4:])))
			b.call(p[:KafkaBatchHeader:KafkaBatchHeader], b.earlier)
			b.earlier += max(0, n)
		}
	}
	n := min(b.batch, int64(len(p)))
	b.batch, b.left = b.batch-n, b.left-n
	return int(n)
}

// again is a connection that returns held bytes again, in front of the next ones.
type again struct {
	net.Conn
	held []byte
}

// Read implements net.Conn. It returns more than the bytes that are held; p must have room for them.
func (a *again) Read(p []byte) (int, error) {
	held := copy(p, a.held)
	n, err := a.Conn.Read(p[held:])
	if n == 0 {
		return 0, err
	}
	a.held = a.held[:0]
	return held + n, err
}
