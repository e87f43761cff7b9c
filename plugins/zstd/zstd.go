// Package zstd compresses and decompresses with Zstandard (RFC 8878).
package zstd

import (
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Codec has the functions of this package as methods.
type Codec struct{}

// NewReader is the function NewReader.
func (Codec) NewReader(r io.Reader, memory uint64) (io.ReadCloser, error) {
	return NewReader(r, memory)
}

// NewWriter is the function NewWriter.
func (Codec) NewWriter(w io.Writer) (io.WriteCloser, error) { return NewWriter(w) }

// NewFramer is the function NewFramer.
func (Codec) NewFramer() (func(content []byte) []byte, error) { return NewFramer() }

// NewReader returns a reader of the decompressed content of r. A frame that needs more than memory bytes is an error.
func NewReader(r io.Reader, memory uint64) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(memory))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// TooLarge reports whether an error of a reader says that a frame needs more memory than allowed.
func TooLarge(err error) bool {
	return errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded)
}

// NewWriter returns a writer that compresses to w. The caller must close it.
func NewWriter(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
}

// NewFramer returns a function that compresses content to a frame. Calls may be concurrent.
func NewFramer() (func(content []byte) []byte, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return func(content []byte) []byte { return e.EncodeAll(content, nil) }, nil
}
