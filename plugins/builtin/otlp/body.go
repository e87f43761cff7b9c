package otlp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/conduit-agent/conduit/plugins/zstd"
)

// Names of compressions, in settings and in headers.
const (
	compressNone = "none"
	compressGzip = "gzip"
	compressZstd = "zstd"
)

// errEncoding is returned for a compression that the source does not have.
var errEncoding = errors.New("the compression is not supported: use gzip, zstd or none")

// decompressor returns a reader of the content of r. window is the maximum memory of zstd, in bytes.
func decompressor(r io.Reader, compression string, window int64) (io.ReadCloser, error) {
	switch compression {
	case "", "identity":
		return io.NopCloser(r), nil
	case compressGzip:
		return gzip.NewReader(r)
	case compressZstd:
		return zstd.NewReader(r, uint64(window))
	}
	return nil, errEncoding
}

// errLimit is returned by readAll for a body above its limit, and errNoRoom when there is no room for it now.
var (
	errLimit  = errors.New("the body is too large")
	errNoRoom = errors.New("there is no room for the body")
)

// readAll reads at most limit bytes. It calls grow before it keeps more bytes than it was granted before.
func readAll(r io.Reader, limit int64, grow func(n int64) bool) ([]byte, error) {
	const piece = 16 << 10
	var body bytes.Buffer
	for granted := int64(0); ; {
		n := min(max(piece, granted), limit+1-int64(body.Len()))
		if !grow(n) {
			return nil, errNoRoom
		}
		granted += n
		read, err := io.CopyN(&body, r, n)
		switch {
		case int64(body.Len()) > limit:
			return nil, errLimit
		case errors.Is(err, io.EOF):
			return body.Bytes(), nil
		case err != nil:
			return nil, err
		case read == 0:
			return nil, io.ErrNoProgress
		}
	}
}

// compressed returns the compressed body.
func compressed(body []byte, compression string) ([]byte, error) {
	if compression == compressNone {
		return body, nil
	}
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if compression == compressZstd {
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}
