package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Memory of the elements of a batch, in addition to their bytes.
const (
	perMessage = int64(unsafe.Sizeof(kgo.Record{}) + unsafe.Sizeof(&kgo.Record{}))
	perHeader  = int64(unsafe.Sizeof(kgo.RecordHeader{})) + 64 // and a metadata field with its name
	perOld     = perMessage + int64(unsafe.Sizeof(kmsg.MessageV1{})) + 16
)

// ErrLater reports a batch that is not decoded because other batches fill the memory. It can be fetched again after a
// Release.
var ErrLater = errors.New("the memory for messages is full")

var errMalformed = errors.New("the messages of a batch are malformed")

// Codecs that a Bound puts into batch headers to make the client decode the batches with it. Brokers do not use these
// codecs.
const (
	later        kgo.CompressionCodecType = 5 // earlier batches in the answer fill the memory
	refused      kgo.CompressionCodecType = 6 // the batch announces too many messages
	uncompressed kgo.CompressionCodecType = 7
	lastCodec                             = kgo.CodecZstd
)

// A Bound limits the memory of batches: of each batch, of all batches in an answer of a broker, and of all batches
// decoded between two calls of Release. Its methods are safe for concurrent use.
type Bound struct {
	most  int64
	inner kgo.Decompressor
	taken atomic.Int64
}

// New returns a Bound of most bytes. The batches of an answer, and those between two calls of Release, exceed it by one
// batch at most.
func New(most int) (*Bound, error) {
	client, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(most), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	inner, ok := client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return nil, errors.New("the client has no decompressor")
	}
	return &Bound{most: int64(most), inner: inner}, nil
}

// Release reports that the batches decoded so far were taken from the client.
func (b *Bound) Release() { b.taken.Store(0) }

// Mark changes the header of a batch so that the client calls Decompress even for an uncompressed batch, or fails if
// the batch announces too many messages. It is a peer.BatchFunc.
func (b *Bound) Mark(header []byte, earlier int64) {
	const attributes, count = 22, 57
	codec := kgo.CompressionCodecType(header[attributes] & 7)
	n := int64(int32(binary.BigEndian.Uint32(header[count:])))
	switch {
	case n > b.most/perMessage:
		codec = refused
	case earlier+n > b.most/perMessage:
		codec = later
	case codec == kgo.CodecNone || codec > lastCodec:
		codec = uncompressed
	}
	change(header, attributes, header[attributes]&^7|byte(codec))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// change sets a byte of a batch and adapts its checksum; a wrong checksum stays wrong. The checksum of an exclusive or
// is the exclusive or of the checksums, so change does not need the bytes of the messages.
func change(header []byte, at int, value byte) {
	const length, sum, summed = 8, 17, 21
	if header[at] == value {
		return
	}
	difference := make([]byte, at+1-summed, 64)
	difference[at-summed] = header[at] ^ value
	header[at] = value
	raw := ^crc32.Update(^uint32(0), castagnoli, difference)
	for left := int64(binary.BigEndian.Uint32(header[length:])) +
		12 - int64(at+1); left > 0; left -= int64(len(zeros)) {
		raw = ^crc32.Update(^raw, castagnoli, zeros[:min(left, int64(len(zeros)))])
	}
	binary.BigEndian.PutUint32(header[sum:], binary.BigEndian.Uint32(header[sum:])^raw)
}

var zeros [4 << 10]byte

// Decompress implements kgo.Decompressor. It returns ErrLater, kgo.ErrMaxDecompress for a batch that needs too much
// memory, or an error for a batch that cannot be decoded.
func (b *Bound) Decompress(p []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	switch {
	case codec == refused:
		return nil, fmt.Errorf("%w: the batch announces too many messages", kgo.ErrMaxDecompress)
	case codec == later, b.taken.Load() > b.most:
		return nil, ErrLater
	case codec == uncompressed:
		return p, b.count(p, 0)
	}
	p, err := b.inner.Decompress(p, codec)
	if errors.Is(err, kgo.ErrMaxDecompress) {
		return nil, err
	} else if err != nil {
		return nil, errors.New("cannot decompress messages: " + err.Error()) // io.EOF in it is not a connection error
	}
	return p, b.count(p, int64(cap(p)))
}

// count takes the memory of a decoded batch p, whose buffer has size bytes.
func (b *Bound) count(p []byte, size int64) error {
	more, ok := sizeOf(p)
	if !ok {
		return errMalformed
	}
	if size += more; size > b.most {
		return kgo.ErrMaxDecompress
	}
	b.taken.Add(size)
	return nil
}

// sizeOf returns the memory of the messages in p, and false if a client can read it in neither format. Only the client
// knows the format: the result is an upper bound for both.
func sizeOf(p []byte) (size int64, ok bool) {
	size, ok = messages(p)
	old := oldMessages(p)
	return max(size, old), ok || old > 0
}

// messages returns the memory of the messages in p, and false if p has other content.
func messages(p []byte) (size int64, ok bool) {
	for len(p) > 0 {
		length, rest := varint(p)
		if rest == nil || length < 1 || length > int64(len(rest)) {
			return size, false
		}
		size += perMessage
		n, ok := batchHeaders(rest[1:length]) // after the attributes
		if size += n * perHeader; !ok {
			return size, false
		}
		p = rest[length:]
	}
	return size, true
}

// batchHeaders returns the number of announced headers that the client allocates, and false if the message is
// malformed.
func batchHeaders(p []byte) (n int64, ok bool) {
	for range 2 { // time and offset
		if _, p = varint(p); p == nil {
			return 0, false
		}
	}
	for range 2 { // key and value
		if p = skip(p); p == nil {
			return 0, false
		}
	}
	if n, p = varint(p); p == nil || n < 0 || n > int64(len(p)) {
		return 0, false
	}
	for range 2 * n {
		if p = skip(p); p == nil {
			return n, false
		}
	}
	return n, len(p) == 0
}

// skip returns the bytes after the length-prefixed bytes at the start of p, or nil if p is malformed. A negative length
// means no bytes.
func skip(p []byte) []byte {
	n, p := varint(p)
	if n > int64(len(p)) {
		return nil
	}
	return p[max(0, n):]
}

// varint returns the number at the start of p and the bytes after it, or nil if there is none.
func varint(p []byte) (int64, []byte) {
	if len(p) > 0 && p[0] < 0x80 {
		return int64(p[0]>>1) ^ -int64(p[0]&1), p[1:]
	}
	n, size := binary.Varint(p)
	if size <= 0 {
		return 0, nil
	}
	return n, p[size:]
}

// oldMessages returns the memory of the messages in p if they have the formats that preceded batches.
func oldMessages(p []byte) (size int64) {
	const short = 17 // bytes up to the format version
	for len(p) > short && p[short-1] <= 1 {
		length := 12 + int64(int32(binary.BigEndian.Uint32(p[8:])))
		if length < short || length > int64(len(p)) {
			break
		}
		size += perOld
		p = p[length:]
	}
	return size
}
