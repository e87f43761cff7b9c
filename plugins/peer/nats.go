package peer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

// Limits of the messages of a NATS server.
const (
	maxPayload  = 64 << 20 // of a message with its headers; the server's own limit of max_payload
	maxInfo     = 1 << 20  // of the line that describes the server
	maxNATSLine = 64 << 10 // of other lines
	maxErrors   = 100      // lines with an error, per second
	maxHeaders  = 100_000  // approximate number of header lines of a message; the client keeps each
)

// NATS checks the messages of a server, in the protocol of
// https://docs.nats.io/reference/reference-protocols/nats-protocol.
type NATS struct {
	line   []byte // incomplete line
	left   int64  // remaining bytes of a message
	header int64  // remaining header bytes
	lines  int    // header lines of the message so far
	over   int64  // remaining bytes of excess headers; 0: none
	ending int    // remaining bytes of CRLF after a message
	errors *rate.Limiter
}

// NewNATS returns a checker of a connection, starting with its first line.
func NewNATS() *NATS { return &NATS{errors: rate.NewLimiter(maxErrors, 10*maxErrors)} }

func natsError(format string, args ...any) error {
	return &Error{"NATS", fmt.Sprintf(format, args...)}
}

// Check implements Checker.
func (c *NATS) Check(p []byte) error {
	for len(p) > 0 {
		switch {
		case c.left > 0:
			n := min(c.left, int64(len(p)))
			if h := min(n, c.header); h > 0 {
				c.headers(p[:h])
			}
			p, c.left = p[n:], c.left-n
		case c.ending > 0:
			if p[0] != "\n\r"[c.ending-1] {
				return natsError("a message is longer than announced")
			}
			p, c.ending = p[1:], c.ending-1
		default:
			end := bytes.IndexByte(p, '\n') + 1
			if end == 0 {
				end = len(p)
			}
			ended := p[end-1] == '\n'
			c.line = append(c.line, p[:end]...)
			most := maxNATSLine
			if c.line[0] == 'I' || c.line[0] == 'i' {
				most = maxInfo
			}
			if len(c.line) > most {
				return natsError("a line has more than %d bytes", most)
			}
			if p = p[end:]; ended {
				if err := c.ended(c.line); err != nil {
					return err
				}
				if c.line = c.line[:0]; cap(c.line) > maxNATSLine {
					c.line = nil
				}
			}
		}
	}
	return nil
}

// headers takes a part of the headers of a message. If they have too many lines, a last line with LeftOut replaces the
// rest.
func (c *NATS) headers(p []byte) {
	const end = "\r\n\r\n"
	for c.over == 0 && len(p) > 0 {
		i := bytes.IndexByte(p, '\n') + 1
		if i == 0 {
			c.header -= int64(len(p))
			return
		}
		p, c.header = p[i:], c.header-int64(i)
		if c.lines++; c.lines >= maxHeaders && c.header >= int64(len(LeftOut)+1+len(end)) {
			c.over = c.header
		}
	}
	for i := range p {
		switch at := c.over - c.header; {
		case at < int64(len(LeftOut)):
			p[i] = LeftOut[at]
		case c.header <= int64(len(end)):
			p[i] = end[int64(len(end))-c.header]
		default:
			p[i] = ':'
		}
		c.header--
	}
}

// ended takes a line.
func (c *NATS) ended(line []byte) error {
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || bytes.IndexByte(text, '\r') >= 0 {
		return natsError("a line does not end with CR LF, or has another CR")
	}
	word, rest := text, []byte(nil)
	if i := bytes.IndexAny(text, " \t"); i >= 0 {
		word, rest = text[:i], text[i:]
	}
	switch string(bytes.ToUpper(word)) {
	case "MSG":
		return c.message(rest, 0)
	case "HMSG":
		return c.message(rest, 1)
	case "-ERR":
		if !c.errors.Allow() {
			return natsError("it reports more than %d errors a second", maxErrors)
		}
	}
	return nil // the client refuses unknown messages
}

// message parses the fields of a message: subject, subscription number, optional reply subject, the length of the
// headers if there are any, and the total length.
func (c *NATS) message(line []byte, headers int) error {
	fields := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) != 3+headers && len(fields) != 4+headers {
		return natsError("a message has %d fields", len(fields))
	}
	if _, err := strconv.ParseUint(string(fields[1]), 10, 63); err != nil {
		return natsError("a message has no number of a subscription")
	}
	size, err := length(fields[len(fields)-1])
	if err != nil {
		return err
	}
	c.header, c.lines, c.over = 0, 0, 0
	if headers > 0 {
		if c.header, err = length(fields[len(fields)-2]); err != nil || c.header > size {
			return natsError("the headers of a message are longer than the message")
		}
	}
	c.left, c.ending = size, 2
	return nil
}

func length(field []byte) (int64, error) {
	n, err := strconv.ParseUint(string(field), 10, 63)
	if most := min(maxPayload, MaxMessage()); err != nil || int64(n) > most {
		return 0, natsError("it announces a message of %s bytes, and at most %d are read",
			field[:min(len(field), maxLengthLine)], most)
	}
	return int64(n), nil
}

// NATSDialer dials for a client of NATS, which must be configured not to look up hosts. It starts TLS itself if TLS is
// wanted, so that the checks see the decrypted data.
type NATSDialer struct {
	Context context.Context // closes the connections when it ends; nil: it never ends
	Timeout time.Duration   // limit for connecting
	TLS     *tls.Config     // nil: only if the server requires it
	Host    string          // host name in the certificate of servers known only by address
}

// SkipTLSHandshake makes the client leave TLS to d.
func (*NATSDialer) SkipTLSHandshake() bool { return true }

// Dial connects, and reads the first line of the server; the client reads the line again.
func (d *NATSDialer) Dial(network, address string) (net.Conn, error) {
	parent := cmp.Or(d.Context, context.Background())
	ctx, cancel := context.WithTimeout(parent, d.Timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(parent, func() { _ = conn.Close() })
	started, err := d.start(ctx, conn, address)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return started, nil
}

func (d *NATSDialer) start(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	begin, line, err := firstLine(conn)
	if err != nil {
		return nil, err
	}
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	op, description, _ := bytes.Cut(line, []byte(" "))
	if !bytes.EqualFold(op, []byte("INFO")) || json.Unmarshal(description, &info) != nil {
		return nil, natsError("it does not begin with INFO")
	}
	through := conn
	switch {
	case d.TLS != nil && !info.Required && !info.Available:
		return nil, errors.New("the NATS server does not offer TLS")
	// data received before TLS must not be trusted after it
	case (d.TLS != nil || info.Required) && len(begin) > len(line):
		return nil, natsError("it sends data before TLS begins")
	case d.TLS != nil || info.Required:
		secured := tls.Client(conn, d.config(address))
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("cannot begin TLS: %w", err)
		}
		through = secured
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return NewConn(&replayed{through, begin}, NewNATS()), nil
}

// config returns the settings of TLS for the server at an address.
func (d *NATSDialer) config(address string) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.TLS != nil {
		config = d.TLS.Clone()
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if d.Host != "" && net.ParseIP(host) != nil {
		host = d.Host
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// firstLine reads the first line. It also returns all bytes read, which may be more than the line.
func firstLine(conn net.Conn) (begin, line []byte, err error) {
	chunk := make([]byte, 4<<10)
	for len(begin) <= maxInfo {
		n, err := conn.Read(chunk)
		from := len(begin)
		begin = append(begin, chunk[:n]...)
		if i := bytes.IndexByte(begin[from:], '\n'); i >= 0 {
			return begin, begin[:from+i+1], nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, natsError("a line has more than %d bytes", maxInfo)
}

// replayed is a connection whose beginning was already read.
type replayed struct {
	net.Conn
	begin []byte
}

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.begin) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.begin)
	r.begin = r.begin[n:]
	return n, nil
}
