// Package syslog parses and writes messages of syslog: RFC 5424, and RFC 3164, which many senders extend.
package syslog

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
)

// A Message is a parsed message. Empty fields are absent.
type Message struct {
	// Priority is the facility times eight plus the severity, or NoPriority.
	Priority int
	Time     time.Time // zero if the message has no time
	Host     string
	App      string
	Process  string
	ID       string
	Data     map[string]any // structured data: objects of parameters by element
	Text     []byte
}

// Facilities are the names of facilities, by number.
var Facilities = []string{"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
	"ftp",
	"ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"}

// Severities are the names of severities, by number.
var Severities = []string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

const (
	// NoPriority is the priority of a message that has none, as in files of logs.
	NoPriority = -1
	// DefaultPriority is the priority that RFC 3164 gives to a received message without one: user.notice.
	DefaultPriority = 13

	maxPriority = 191 // local7.debug
)

// ErrFormat is wrapped by the errors for a text that is not a message of the format.
var ErrFormat = errors.New("it is not a message of")

var (
	err5424 = fmt.Errorf("%w RFC 5424", ErrFormat)
	err3164 = fmt.Errorf("%w RFC 3164: it has neither a priority nor a time", ErrFormat)
)

// A Parser parses messages.
type Parser struct {
	// Zone and Now complete a time without a zone or a year: the year is that in which the time is nearest to Now.
	Zone *time.Location
	Now  time.Time
	// Take is called with the bytes of memory that a part of structured data needs, before they are allocated. Its error
	// ends the parsing. nil sets no limit.
	Take func(bytes int) error
}

// Is5424 reports whether b begins like a message of RFC 5424: with a priority and the version 1.
func Is5424(b []byte) bool {
	_, rest, ok := parsePriority(b)
	return ok && bytes.HasPrefix(rest, version)
}

var version = []byte("1 ")

// Parse5424 parses a message of RFC 5424. The byte order mark before the text is removed.
func (p *Parser) Parse5424(b []byte) (m Message, err error) {
	priority, rest, ok := parsePriority(trim(b))
	if !ok {
		return m, err5424
	}
	if rest, ok = bytes.CutPrefix(rest, version); !ok {
		return m, err5424
	}
	if m, err = p.parse5424(rest); err != nil {
		return Message{}, err
	}
	m.Priority = priority
	return m, nil
}

// Parse3164 parses a message of RFC 3164: a priority, a time and a host, a tag, and text. All but the text are
// optional, but a message without a priority and a time is an error. The time may be one of RFC 3339.
func (p *Parser) Parse3164(b []byte) (Message, error) {
	b = trim(b)
	m := Message{Priority: NoPriority}
	priority, rest, ok := parsePriority(b)
	if ok {
		m.Priority = priority
	} else {
		rest = b
	}
	p.parse3164(&m, rest)
	if !ok && m.Time.IsZero() {
		return Message{}, err3164
	}
	return m, nil
}

func trim(b []byte) []byte { return bytes.TrimRight(b, "\r\n\x00") }

func parsePriority(b []byte) (n int, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '<' {
		return 0, nil, false
	}
	end := bytes.IndexByte(b[:min(len(b), 5)], '>')
	if end < 2 {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(b[1:end]))
	return n, b[end+1:], err == nil && n >= 0 && n <= maxPriority
}

// parse5424 parses the part after the version.
func (p *Parser) parse5424(b []byte) (m Message, err error) {
	var fields [5]string
	for i := range fields {
		field, rest, ok := bytes.Cut(b, []byte(" "))
		if !ok || len(field) == 0 {
			return m, err5424
		}
		if fields[i], b = string(field), rest; fields[i] == "-" {
			fields[i] = ""
		}
	}
	if fields[0] != "" {
		if m.Time, err = time.Parse(time.RFC3339Nano, fields[0]); err != nil {
			return m, err5424
		}
	}
	m.Host, m.App, m.Process, m.ID = fields[1], fields[2], fields[3], fields[4]
	if m.Data, b, err = p.parseData(b); err != nil {
		return m, err
	}
	b, text := bytes.CutPrefix(b, []byte(" "))
	if !text && len(b) > 0 {
		return m, err5424
	}
	m.Text = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	return m, nil
}

// parseData parses structured data, and returns the remaining bytes.
func (p *Parser) parseData(b []byte) (data map[string]any, rest []byte, err error) {
	if rest, ok := bytes.CutPrefix(b, []byte("-")); ok {
		return nil, rest, nil
	}
	data = map[string]any{}
	for len(b) > 0 && b[0] == '[' {
		end := bytes.IndexAny(b, " ]")
		if end < 2 {
			return nil, nil, err5424
		}
		id := record.ValidName(string(b[1:end]))
		parameters, ok := data[id].(map[string]any)
		if !ok {
			if err := p.take(len(id)); err != nil {
				return nil, nil, err
			}
			parameters = map[string]any{}
			data[id] = parameters
		}
		for b = b[end:]; len(b) > 0 && b[0] == ' '; {
			if b, err = p.parseParameter(bytes.TrimLeft(b, " "), parameters); err != nil {
				return nil, nil, err
			}
		}
		if len(b) == 0 || b[0] != ']' {
			return nil, nil, err5424
		}
		b = b[1:]
	}
	if len(data) == 0 {
		return nil, nil, err5424
	}
	return data, b, nil
}

// parseParameter parses name="value", and returns the remaining bytes.
func (p *Parser) parseParameter(b []byte, into map[string]any) (rest []byte, err error) {
	name, value, ok := bytes.Cut(b, []byte(`="`))
	if !ok || len(name) == 0 || bytes.ContainsAny(name, ` ]"`) {
		return nil, err5424
	}
	if err := p.take(len(name)); err != nil {
		return nil, err
	}
	var unescaped []byte
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			record.AddRepeated(into, record.ValidName(string(name)), text(unescaped))
			return value[i+1:], nil
		case c == '\\' && i+1 < len(value) && strings.IndexByte(`"\]`, value[i+1]) >= 0:
			i++
			unescaped = append(unescaped, value[i])
		default:
			unescaped = append(unescaped, c)
		}
	}
	return nil, err5424
}

// memberBytes is the memory of a member of an object without its text.
const memberBytes = 96

func (p *Parser) take(text int) error {
	if p.Take == nil {
		return nil
	}
	return p.Take(memberBytes + text)
}

// parse3164 parses the part after the priority.
func (p *Parser) parse3164(m *Message, b []byte) {
	m.Text = b
	rest, ok := p.parseTime(m, b)
	if !ok {
		return
	}
	host, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok || len(host) == 0 || bytes.HasSuffix(host, []byte(":")) || bytes.HasSuffix(host, []byte("]")) {
		text = rest // local senders omit the host
	} else {
		m.Host = string(host)
	}
	m.App, m.Process, m.Text = parseTag(text)
}

func (p *Parser) parseTime(m *Message, b []byte) (rest []byte, ok bool) {
	const layout, leapYear = "Jan _2 15:04:05", "2000 "
	if len(b) > len(layout) && b[len(layout)] == ' ' {
		if t, err := time.Parse("2006 "+layout, leapYear+string(b[:len(layout)])); err == nil {
			m.Time = p.withYear(t)
			return b[len(layout)+1:], true
		}
	}
	stamp, rest, ok := bytes.Cut(b, []byte(" ")) // timestamp of senders that extend the format
	if ok {
		if t, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			m.Time = t
			return rest, true
		}
	}
	return nil, false
}

// withYear returns t in the zone and in the year in which it is nearest to now.
func (p *Parser) withYear(t time.Time) (nearest time.Time) {
	year, further := p.Now.In(p.Zone).Year(), 1
	if t.Month() == time.February && t.Day() == 29 {
		further = 8 // leap years are at most eight years apart
	}
	for y := year - further; y <= year+further; y++ {
		made := time.Date(y, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, p.Zone)
		if made.Month() == t.Month() && (nearest.IsZero() || made.Sub(p.Now).Abs() < nearest.Sub(p.Now).Abs()) {
			nearest = made
		}
	}
	return nearest
}

// parseTag splits "app[process]: text".
func parseTag(b []byte) (app, process string, text []byte) {
	const longest = 48
	end := bytes.IndexAny(b[:min(len(b), longest)], "[: ")
	if end <= 0 || b[end] == ' ' {
		return "", "", b
	}
	app, rest := string(b[:end]), b[end:]
	if rest[0] == '[' {
		closing := bytes.IndexByte(rest, ']')
		if closing < 0 {
			return "", "", b
		}
		process, rest = string(rest[1:closing]), rest[closing+1:]
	}
	rest, ok := bytes.CutPrefix(rest, []byte(":"))
	if !ok {
		return "", "", b
	}
	return app, process, bytes.TrimPrefix(rest, []byte(" "))
}

// Object returns the message as the payload of a record.
func (m *Message) Object() map[string]any {
	object := map[string]any{"message": text(m.Text)}
	if m.Priority != NoPriority {
		object["facility"], object["severity"] = Facilities[m.Priority/8], Severities[m.Priority%8]
		object["priority"] = int64(m.Priority)
	}
	for name, value := range map[string]string{"hostname": m.Host, "appname": m.App, "procid": m.Process,
		"msgid": m.ID} {
		if value != "" {
			object[name] = record.ValidName(value)
		}
	}
	if !m.Time.IsZero() {
		object["timestamp"] = m.Time.Format(time.RFC3339Nano)
	}
	if len(m.Data) > 0 {
		object["structured_data"] = m.Data
	}
	return object
}

// text returns b as a string if it is valid UTF-8, otherwise as bytes.
func text(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return bytes.Clone(b)
}

// Append appends the message to dst in the format of RFC 5424 (rfc5424) without structured data, or RFC 3164 (rfc3164).
func (m *Message) Append(dst []byte, format string) []byte {
	if format == "rfc3164" {
		dst = fmt.Appendf(dst, "<%d>%s %s %s", m.Priority, m.Time.Format(time.Stamp), header(m.Host, "-"),
			header(m.App, "conduit"))
		if m.Process != "" {
			dst = fmt.Appendf(dst, "[%s]", header(m.Process, "-"))
		}
		return append(append(dst, ": "...), m.Text...)
	}
	const micro = "2006-01-02T15:04:05.999999Z07:00"
	dst = fmt.Appendf(dst, "<%d>1 %s %s %s %s %s -", m.Priority, m.Time.Format(micro), header(m.Host, "-"),
		header(m.App, "-"), header(m.Process, "-"), header(m.ID, "-"))
	if len(m.Text) > 0 {
		dst = append(append(dst, ' '), m.Text...)
	}
	return dst
}

// header returns s as a header field: visible ASCII, at most 48 bytes.
func header(s, without string) string {
	const longest = 48
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
	if s = s[:min(len(s), longest)]; s == "" {
		return without
	}
	return s
}
