//go:build minimal

// Package zstd replaces Zstandard in a build without it.
package zstd

import (
	"errors"
	"io"
)

var errAbsent = errors.New("this build has no zstd: it was built with -tags minimal")

// Available returns an error that Zstandard is absent.
func Available() error { return errAbsent }

// NewReader returns an error.
func NewReader(io.Reader, uint64) (io.ReadCloser, error) { return nil, errAbsent }

// NewWriter returns an error.
func NewWriter(io.Writer) (io.WriteCloser, error) { return nil, errAbsent }

// NewFramer returns an error.
func NewFramer() (func([]byte) []byte, error) { return nil, errAbsent }
