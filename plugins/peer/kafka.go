package peer

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
)

// Limits of the answers of a Kafka broker, in addition to MaxMessage.
const (
	maxPlainAnswer = 256 << 10 // bytes of an answer whose arrays are not followed
	entrySize      = 256       // maximum memory that a client allocates for an entry of an array
	maxTag         = 64 << 10  // bytes of a tagged field
	maxPending     = 10_000    // unanswered requests
)

// answers describes the answers to requests that have arrays of any length, by the key of the request, as defined at
// https://kafka.apache.org/protocol. A client allocates an array before it reads its entries. A digit is a field of so
// many bytes, u a UUID, s a string, y bytes, r the bytes of batches of messages, i an array of numbers; an array of
// structures is in brackets. The number after @ is the first version with the field, and the number after - the last
// one.
var answers = map[int16]struct {
	flexible int16 // version from which on lengths are variable, and structures have tagged fields
	fields   string
}{
	1:  {12, "4@1 2@7 4@7 [ s@0-12 u@13 [ 4 2 8 8@4 8@5 [ 8 8 ]@4 4@11 r ] ]"},                  // Fetch
	2:  {6, "4@2 [ s [ 4 2 [ 8 ]@0-0 8@1 8@1 4@4 ] ]"},                                          // ListOffsets
	3:  {9, "4@3 [ 4 s 4 s@1 ] s@2 4@1 [ 2 s u@10 1@1 [ 2 4 4 4@7 i i i@5 ] 4@8 ] 4@8-10 2@13"}, // Metadata
	8:  {8, "4@3 [ s@0-9 u@10 [ 4 2 ] ]"},                                                       // OffsetCommit
	9:  {6, "4@3 [ s [ 4 8 4@5 s 2 ] ]@0-7 2@2-7 [ s [ s@8-9 u@10 [ 4 8 4 s 2 ] ] 2 ]@8"},       // OffsetFetch
	10: {3, "4@1 2@0-3 s@1-3 4@0-3 s@0-3 4@0-3 [ s 4 s 4 2 s ]@4"},                              // FindCoordinator
	11: {6, "4@2 2 4 s@7 s s 1@9 s [ s s@5 y ]"},                                                // JoinGroup
}

// field is a field of an answer in one version.
type field struct {
	kind   byte
	fields []field // fields of the structures of an array
}

// fieldsOf returns the fields of an answer in a version.
func fieldsOf(description string, version int16) []field {
	stack := [][]field{nil}
	for word := range strings.FieldsSeq(description) {
		word, versions, _ := strings.Cut(word, "@")
		if word == "[" {
			stack = append(stack, nil)
			continue
		}
		f := field{kind: word[0]}
		if word == "]" {
			last := len(stack) - 1
			f = field{'[', stack[last]}
			stack = stack[:last]
		}
		if last := len(stack) - 1; has(versions, version) {
			stack[last] = append(stack[last], f)
		}
	}
	return stack[0]
}

// has reports whether a version is in versions, such as 2, which means 2 or later, or 2-4.
func has(versions string, version int16) bool {
	var from, to int16 = 0, 1 << 14
	if versions != "" {
		_, _ = fmt.Sscanf(versions, "%d-%d", &from, &to) // without an end, to keeps its value
	}
	return version >= from && version <= to
}

// Kafka checks the answers on a connection to a broker. It also reads the requests, which determine the format of the
// answers.
type Kafka struct {
	mu      sync.Mutex
	written reassembled // guarded by mu: the request that is being written
	pending []request   // guarded by mu: in the order of answers

	head    []byte // incomplete beginning of an answer or a field
	skip    int64  // bytes to skip
	left    int64  // bytes that remain of the answer, without head
	entries int64  // announced entries of arrays in the answer
	fetched batches
	walk    *walk // nil: the arrays of the answer are not followed, or it has not begun
}

type request struct {
	correlation uint32
	key         int16
	version     int16
}

// reassembled has the beginning of a request.
type reassembled struct {
	head []byte
	left int64
}

// KafkaConn is a connection that checks the bytes read from it.
type KafkaConn struct {
	*Conn
	checker *Kafka
	again   *again
	rest    []byte // bytes that were checked and not returned
}

// NewKafka returns conn with checks of the answers. batch is called with each batch of messages; it may be nil.
func NewKafka(conn net.Conn, batch BatchFunc) *KafkaConn {
	checker, again := &Kafka{fetched: batches{call: batch}}, &again{Conn: conn}
	return &KafkaConn{Conn: NewConn(again, checker), checker: checker, again: again}
}

// Read implements net.Conn. It returns the header of a batch when it is complete.
func (c *KafkaConn) Read(p []byte) (int, error) {
	const enough = 2 * KafkaBatchHeader
	for len(c.rest) == 0 {
		b := p
		if len(p) < enough {
			b = make([]byte, enough)
		}
		n, err := c.Conn.Read(b)
		if n > 0 {
			n -= c.checker.fetched.unread
			c.again.held = append(c.again.held, b[n:n+c.checker.fetched.unread]...)
		}
		switch {
		case n == 0 && err != nil:
			return 0, err
		case n > 0 && len(p) >= enough:
			return n, err
		}
		c.rest = b[:n]
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements net.Conn.
func (c *KafkaConn) Write(p []byte) (int, error) {
	c.checker.sent(p)
	return c.Conn.Write(p)
}

func kafkaError(format string, args ...any) error {
	return &Error{"Kafka", fmt.Sprintf(format, args...)}
}

const keyProduce = 0 // has no answer with acks 0

// sent follows the bytes that the client writes.
func (c *Kafka) sent(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.written
	for len(p) > 0 {
		if w.left > 0 {
			n := min(w.left, int64(len(p)))
			p, w.left = p[n:], w.left-n
			continue
		}
		const header = 12 // length, key, version, correlation
		n := min(header-len(w.head), len(p))
		if w.head, p = append(w.head, p[:n]...), p[n:]; len(w.head) < header {
			return
		}
		w.left = max(0, int64(binary.BigEndian.Uint32(w.head))-(header-4))
		r := request{
			binary.BigEndian.Uint32(w.head[8:]),
			int16(binary.BigEndian.Uint16(w.head[4:])), int16(binary.BigEndian.Uint16(w.head[6:])),
		}
		if w.head = w.head[:0]; r.key != keyProduce && len(c.pending) < maxPending {
			c.pending = append(c.pending, r)
		}
	}
}

// answered returns the request that is answered, and removes it and all earlier ones; false if it is unknown.
func (c *Kafka) answered(correlation uint32) (request, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.pending {
		if r.correlation == correlation {
			c.pending = append(c.pending[:0], c.pending[i+1:]...)
			return r, true
		}
	}
	return request{}, false
}

// Check implements Checker.
func (c *Kafka) Check(p []byte) error {
	for c.fetched.unread = 0; len(p) > 0; {
		if c.fetched.left > 0 {
			if p = p[c.fetched.follow(p):]; c.fetched.unread > 0 {
				return nil
			}
			continue
		}
		if c.skip > 0 {
			n := min(c.skip, int64(len(p)))
			p, c.skip = p[n:], c.skip-n
			continue
		}
		c.head, p = append(c.head, p[0]), p[1:]
		if err := c.next(); err != nil {
			return err
		}
	}
	return nil
}

// next takes another byte of head.
func (c *Kafka) next() error {
	if c.left == 0 {
		return c.begin()
	}
	if c.left--; c.walk == nil {
		return kafkaError("an answer is longer than announced")
	}
	if err := c.advance(); err != nil {
		return err
	}
	if c.left == 0 && c.walk != nil {
		return c.cutOff()
	}
	return nil
}

// begin takes the length of an answer, and the number of the request that it answers.
func (c *Kafka) begin() error {
	const header = 8
	if len(c.head) < header {
		return nil
	}
	size, correlation := int64(int32(binary.BigEndian.Uint32(c.head)))-4, binary.BigEndian.Uint32(c.head[4:])
	c.head = c.head[:0]
	if size < 0 || size > MaxMessage() {
		return kafkaError("it announces an answer of %d bytes, and at most %d are read"+withMemory, size, MaxMessage())
	}
	r, known := c.answered(correlation)
	description, followed := answers[r.key]
	if !known || !followed {
		if c.skip = size; size > maxPlainAnswer {
			return kafkaError("it announces an answer of %d bytes to a request with key %d, and at most %d are read",
				size, r.key, maxPlainAnswer)
		}
		return nil
	}
	c.left, c.entries, c.fetched.earlier = size, 0, 0
	c.walk = newWalk(fieldsOf(description.fields, r.version), r.version >= description.flexible)
	return c.settle()
}

// walk is the place in an answer.
type walk struct {
	flexible bool
	frames   []frame
	tags     int64 // fields with tags to come at this place, -1: their number
	tag      int   // parts of a tagged field that were read: its number, its length
}

// frame is a structure, or several of an array.
type frame struct {
	fields []field
	at     int
	more   int64 // structures after this one
}

func newWalk(fields []field, flexible bool) *walk {
	w := &walk{flexible: flexible}
	if flexible { // the header of an answer has tagged fields, too
		w.frames = []frame{{}}
	}
	w.frames = append([]frame{{fields: fields}}, w.frames...)
	w.tags = -1
	return w
}

// advance takes head when it is a whole value at the place.
func (c *Kafka) advance() error {
	w := c.walk
	f := &w.frames[len(w.frames)-1]
	if f.at == len(f.fields) { // tagged fields
		n, ok, err := c.uvarint()
		if !ok || err != nil {
			return err
		}
		return c.tagged(int64(n))
	}
	n, ok, err := c.length(f.fields[f.at].kind)
	if !ok || err != nil {
		return err
	}
	this := f.fields[f.at]
	f.at++
	switch {
	case this.kind == '[':
		if c.entries += max(0, n); c.entries > MaxMessage()/entrySize {
			return kafkaError("it announces arrays of %d entries, and at most %d are read"+withMemory,
				c.entries, MaxMessage()/entrySize)
		}
		if n > 0 {
			w.frames = append(w.frames, frame{fields: this.fields, more: n - 1})
		}
	case this.kind == 'i':
		n = max(0, n) * 4
		fallthrough
	default:
		if err := c.pass(n); err != nil {
			return err
		}
		if this.kind == 'r' && c.fetched.call != nil {
			c.fetched.left, c.skip = c.skip, 0
		}
	}
	return c.settle()
}

// length returns the length that head has; false while it is not complete.
func (c *Kafka) length(kind byte) (n int64, ok bool, err error) {
	if c.walk.flexible {
		u, ok, err := c.uvarint()
		return int64(u) - 1, ok, err
	}
	if kind == 's' {
		if len(c.head) < 2 {
			return 0, false, nil
		}
		n = int64(int16(binary.BigEndian.Uint16(c.head)))
	} else {
		if len(c.head) < 4 {
			return 0, false, nil
		}
		n = int64(int32(binary.BigEndian.Uint32(c.head)))
	}
	c.head = c.head[:0]
	return n, true, nil
}

// uvarint returns the number that head is, false while it is not complete.
func (c *Kafka) uvarint() (n uint32, ok bool, err error) {
	u, size := binary.Uvarint(c.head)
	if size == 0 && len(c.head) < binary.MaxVarintLen32 {
		return 0, false, nil
	}
	c.head = c.head[:0]
	if size <= 0 || u > 1<<31 {
		return 0, false, kafkaError("a length is malformed")
	}
	return uint32(u), true, nil
}

// tagged takes a number of the tagged fields: the count, or the number or length of a field.
func (c *Kafka) tagged(n int64) error {
	w := c.walk
	switch {
	case w.tags < 0:
		if w.tags = n; n > c.left {
			return kafkaError("it announces %d tagged fields", n)
		}
	case w.tag == 0:
		w.tag = 1
	default:
		if n > maxTag {
			return kafkaError("it announces a tagged field of %d bytes, and at most %d are read", n, maxTag)
		}
		if err := c.pass(n); err != nil {
			return err
		}
		w.tag, w.tags = 0, w.tags-1
	}
	return c.settle()
}

// pass skips a value.
func (c *Kafka) pass(n int64) error {
	if n = max(0, n); n > c.left {
		return kafkaError("it announces %d bytes, and %d are left of the answer", n, c.left)
	}
	c.skip, c.left = n, c.left-n
	return nil
}

// settle advances to the next value that has a length. It skips data after the end of a known structure.
func (c *Kafka) settle() error {
	w := c.walk
	for len(w.frames) > 0 {
		f := &w.frames[len(w.frames)-1]
		if f.at < len(f.fields) {
			kind := f.fields[f.at].kind
			if size := map[byte]int64{'1': 1, '2': 2, '4': 4, '8': 8, 'u': 16}[kind]; size > 0 {
				if size > c.left {
					return c.cutOff()
				}
				c.skip, c.left, f.at = c.skip+size, c.left-size, f.at+1
				continue
			}
			break
		}
		if w.flexible && w.tags != 0 {
			break
		}
		if w.tags = -1; f.more > 0 {
			f.more, f.at = f.more-1, 0
			continue
		}
		w.frames = w.frames[:len(w.frames)-1]
	}
	if len(w.frames) == 0 {
		c.skip, c.left, c.walk = c.skip+c.left, 0, nil
		return nil
	}
	if c.left == 0 {
		return c.cutOff()
	}
	return nil
}

func (c *Kafka) cutOff() error { return kafkaError("an answer is shorter than announced") }
