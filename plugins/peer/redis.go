package peer

import (
	"bytes"
	"fmt"
	"strconv"
)

// Limits of a reply in RESP.
const (
	maxBulk       = 512 << 20 // of a value; the server's own limit
	maxDepth      = 8         // of nested arrays; XREAD nests five
	maxRedisLine  = 64 << 10  // of simple strings and errors
	maxLengthLine = 24        // of numbers and lengths
	elementSize   = 64        // that a client allocates for an element of an array, in addition to its bytes
)

// Redis checks replies in RESP2, as defined at https://redis.io/docs/latest/develop/reference/protocol-spec/. The
// announced sizes of all elements of a reply are limited together.
type Redis struct {
	line      []byte // incomplete line
	payload   int64  // remaining bytes of a value
	ending    int    // remaining bytes of CRLF after a value
	open      []int  // elements that remain of each open array
	announced int64  // bytes that the client allocates for this reply
}

func redisError(format string, args ...any) error {
	return &Error{"Redis", fmt.Sprintf(format, args...)}
}

// Check implements Checker.
func (r *Redis) Check(p []byte) error {
	for len(p) > 0 {
		switch {
		case r.payload > 0:
			n := min(r.payload, int64(len(p)))
			p, r.payload = p[n:], r.payload-n
		case r.ending > 0:
			if p[0] != "\n\r"[r.ending-1] {
				return redisError("a value is longer than announced")
			}
			p, r.ending = p[1:], r.ending-1
			if r.ending == 0 {
				r.complete()
			}
		default:
			end := bytes.IndexByte(p, '\n') + 1
			if end == 0 {
				end = len(p)
			}
			if len(r.line)+end > maxRedisLine {
				return redisError("a line has more than %d bytes", maxRedisLine)
			}
			ended := p[end-1] == '\n'
			if r.line = append(r.line, p[:end]...); ended {
				if err := r.begin(r.line); err != nil {
					return err
				}
				r.line = r.line[:0]
			}
			p = p[end:]
		}
	}
	return nil
}

// begin takes the first line of a reply or of an element.
func (r *Redis) begin(line []byte) error {
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(text) == 0 {
		return redisError("a line is empty, or does not end with CR LF")
	}
	switch text[0] {
	case '+', '-':
		r.announced += int64(len(text))
		r.complete()
		return r.bounded()
	}
	if len(text) > maxLengthLine {
		return redisError("a number has more than %d digits", maxLengthLine)
	}
	if text[0] == ':' {
		r.complete()
		return nil
	}
	n, err := strconv.ParseInt(string(text[1:]), 10, 64)
	if err != nil || n < -1 || text[1] == '+' {
		return redisError("%q is not a length", text)
	}
	switch {
	case text[0] == '$' && n > maxBulk:
		return redisError("it announces a value of %d bytes, and at most %d are read", n, maxBulk)
	case text[0] == '$' && n >= 0:
		r.announced, r.payload, r.ending = r.announced+n, n, 2
	case text[0] == '*' && n > 0:
		if len(r.open) == maxDepth {
			return redisError("its arrays are nested more than %d deep", maxDepth)
		}
		r.announced += min(n, maxMessage) * elementSize
		if err := r.bounded(); err != nil { // before n is used as an int
			return err
		}
		r.open = append(r.open, int(n))
	case text[0] == '$', text[0] == '*':
		r.complete()
	default:
		return redisError("%q begins no reply", text[:1])
	}
	return r.bounded()
}

func (r *Redis) bounded() error {
	if most := MaxMessage(); r.announced > most {
		return redisError("it announces a reply of %d bytes, and at most %d are read"+withMemory, r.announced, most)
	}
	return nil
}

// complete ends a value, and the arrays whose last element it is.
func (r *Redis) complete() {
	for len(r.open) > 0 {
		last := len(r.open) - 1
		if r.open[last]--; r.open[last] > 0 {
			return
		}
		r.open = r.open[:last]
	}
	r.announced = 0
}
