package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Payload is a compressed transaction of MySQL.
type Payload struct {
	decoder Decoder
	from    io.Reader
	close   func()
	buf     []byte
}

// Field types and compression types of a payload.
const (
	payloadEnd         = 0
	payloadSize        = 1
	payloadCompression = 2

	compressionZSTD = 0
	compressionNone = 255
)

// maxWindow bounds the memory of the decompressor.
const maxWindow = 8 << 20

func (d *Decoder) payload(r *reader) (any, error) {
	kind := compressionNone
	for {
		field := r.length()
		if field == payloadEnd || r.failed {
			break
		}
		value := reader{data: r.take(r.length())}
		if field == payloadCompression {
			kind = value.length()
		}
		r.failed = r.failed || value.failed
	}
	if r.failed {
		return nil, ErrCorrupt
	}
	p := &Payload{decoder: Decoder{known: true}, from: bytes.NewReader(r.rest()), close: func() {}}
	switch kind {
	case compressionNone:
	case compressionZSTD:
		z, err := zstd.NewReader(p.from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("cannot decompress: %w", err)
		}
		p.from, p.close = z, z.Close
	default:
		return nil, fmt.Errorf("unknown compression %d: %w", kind, ErrCorrupt)
	}
	return p, nil
}

// Next decodes the next event, with the results of Decode. It returns io.EOF after the last one.
func (p *Payload) Next() (Header, any, error) {
	head := make([]byte, headerLength)
	if _, err := io.ReadFull(p.from, head); err != nil {
		return Header{}, nil, atEnd(err)
	}
	n := int64(binary.LittleEndian.Uint32(head[9:]))
	if n < headerLength || head[4] == typePayload { // a server does not nest payloads
		return Header{}, nil, ErrCorrupt
	}
	if err := bounded(uint64(n)); err != nil {
		return Header{}, nil, fmt.Errorf("cannot read an event of a compressed transaction: %w", err)
	}
	// The announced length may be wrong, so the buffer grows as bytes arrive.
	b := bytes.NewBuffer(append(p.buf[:0], head...))
	if read, err := io.Copy(b, io.LimitReader(p.from, n-headerLength)); err != nil || read != n-headerLength {
		return Header{}, nil, unexpanded(err)
	}
	p.buf = b.Bytes()
	return p.decoder.Decode(p.buf)
}

func atEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return unexpanded(err)
}

// Close frees the decompressor.
func (p *Payload) Close() { p.close() }
