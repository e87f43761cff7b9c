package otlp

import "io"

// limitedReader reads at most left bytes, and then fails.
type limitedReader struct {
	io.Reader
	left     int64
	exceeded bool // there were more bytes
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.Reader.Read(p)
	if int64(n) > l.left {
		l.exceeded = true
		return int(l.left), errLimit
	}
	l.left -= int64(n)
	return n, err
}
