package binlog

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"io"
)

// expandColumn returns the value of a COMPRESSED column of MariaDB. The first byte is zero before a plain value.
// Otherwise it holds the method, whether there is a zlib header, and the size of the length in bytes; the big-endian
// length and the compressed value follow. made is the number of bytes of the earlier values in the row.
func expandColumn(b []byte, made int64) ([]byte, error) {
	if len(b) == 0 {
		return b, nil
	}
	if b[0] == 0 {
		return b[1:], nil
	}
	const methodZlib, bare = 8, 8 // bare: without a zlib header
	r := &reader{data: b}
	head := r.uint8()
	n := r.big(int(head & 7))
	if r.failed || head>>4 != methodZlib || n > maxLength {
		return nil, unexpanded(nil)
	}
	if err := bounded(n + uint64(made)); err != nil {
		return nil, err
	}
	var z io.Reader = flate.NewReader(bytes.NewReader(r.data))
	if head&bare == 0 {
		var err error
		if z, err = zlib.NewReader(bytes.NewReader(r.data)); err != nil {
			return nil, unexpanded(err)
		}
	}
	return expand(z, n)
}
