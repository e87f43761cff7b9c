package syslog

import (
	"errors"
	"io"

	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
)

// frames splits a stream into messages: by octet counting if a message begins with its length, otherwise at newlines or
// NUL bytes.
type frames struct{ *sockets.Reader }

func (s *sourceSettings) framing(r io.Reader) sockets.Framing {
	return frames{sockets.NewReader(r, s.MaxBytes)}
}

// Next implements sockets.Framing. The rest of a connection after the last line counts as a message, and a part of a
// message with a length does not.
func (f frames) Next() (message []byte, cut bool, err error) {
	const lineEnds = "\n\x00"
	first, err := f.Peek()
	if err != nil {
		return nil, false, err
	}
	if first < '1' || first > '9' {
		return f.Line(nil, lineEnds)
	}
	n, begun, err := f.Count()
	switch {
	case errors.Is(err, sockets.ErrCount): // digits begin a line, for example of a sender that omits the priority
		return f.Line(begun, lineEnds)
	case err != nil:
		return nil, false, err
	}
	if message, cut, err = f.Body(n); err != nil {
		return nil, false, err
	}
	return message, cut, nil
}
