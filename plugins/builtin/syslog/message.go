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

// message is a parsed message. Empty fields are absent.
type message struct {
	priority int       // facility times eight plus severity
	time     time.Time // zero if the message has no time
	host     string
	app      string
	process  string
	id       string
	data     map[string]any // structured data: objects of parameters by element
	text     []byte
	version  int // 1: RFC 5424; 0: RFC 3164
}

var facilities = []string{"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
	"ftp",
	"ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"}

var severities = []string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

const (
	maxPriority     = 191 // local7.debug
	defaultPriority = 13  // user.notice, for a message without a priority
)

// parse parses a message. A message in neither format becomes text with priority user.notice, as RFC 3164 requires. now
// and zone complete times without a year or a zone.
func parse(b []byte, now time.Time, zone *time.Location) message {
	m := message{priority: defaultPriority}
	b = bytes.TrimRight(b, "\r\n\x00")
	priority, rest, ok := parsePriority(b)
	if !ok {
		m.text = b
		return m
	}
	m.priority = priority
	if after, ok := bytes.CutPrefix(rest, []byte("1 ")); ok {
		if m5424, err := parse5424(after); err == nil {
			m5424.priority = priority
			return m5424
		}
	}
	m.parse3164(rest, now, zone)
	return m
}

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

var errFormat = errors.New("not a message of RFC 5424")

// parse5424 parses the part after the version.
func parse5424(b []byte) (m message, err error) {
	m.version = 1
	var fields [5]string
	for i := range fields {
		field, rest, ok := bytes.Cut(b, []byte(" "))
		if !ok || len(field) == 0 {
			return m, errFormat
		}
		if fields[i], b = string(field), rest; fields[i] == "-" {
			fields[i] = ""
		}
	}
	if fields[0] != "" {
		if m.time, err = time.Parse(time.RFC3339Nano, fields[0]); err != nil {
			return m, errFormat
		}
	}
	m.host, m.app, m.process, m.id = fields[1], fields[2], fields[3], fields[4]
	if m.data, b, err = parseData(b); err != nil {
		return m, err
	}
	b, text := bytes.CutPrefix(b, []byte(" "))
	if !text && len(b) > 0 {
		return m, errFormat
	}
	m.text = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	return m, nil
}

// parseData parses structured data, and returns the remaining bytes.
func parseData(b []byte) (data map[string]any, rest []byte, err error) {
	if rest, ok := bytes.CutPrefix(b, []byte("-")); ok {
		return nil, rest, nil
	}
	data = map[string]any{}
	for len(b) > 0 && b[0] == '[' {
		end := bytes.IndexAny(b, " ]")
		if end < 2 {
			return nil, nil, errFormat
		}
		id := record.ValidName(string(b[1:end]))
		parameters, ok := data[id].(map[string]any)
		if !ok {
			parameters = map[string]any{}
			data[id] = parameters
		}
		for b = b[end:]; len(b) > 0 && b[0] == ' '; {
			if b, err = parseParameter(bytes.TrimLeft(b, " "), parameters); err != nil {
				return nil, nil, err
			}
		}
		if len(b) == 0 || b[0] != ']' {
			return nil, nil, errFormat
		}
		b = b[1:]
	}
	if len(data) == 0 {
		return nil, nil, errFormat
	}
	return data, b, nil
}

// parseParameter parses name="value", and returns the remaining bytes.
func parseParameter(b []byte, into map[string]any) (rest []byte, err error) {
	name, value, ok := bytes.Cut(b, []byte(`="`))
	if !ok || len(name) == 0 || bytes.ContainsAny(name, ` ]"`) {
		return nil, errFormat
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
	return nil, errFormat
}

// parse3164 parses the part after the priority: a time and a host, a tag, and text. All but the text are optional.
func (m *message) parse3164(b []byte, now time.Time, zone *time.Location) {
	m.text = b
	rest, ok := m.parseTime(b, now, zone)
	if !ok {
		return
	}
	host, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok || len(host) == 0 || bytes.HasSuffix(host, []byte(":")) || bytes.HasSuffix(host, []byte("]")) {
		text = rest // local senders omit the host
	} else {
		m.host = string(host)
	}
	m.app, m.process, m.text = parseTag(text)
}

func (m *message) parseTime(b []byte, now time.Time, zone *time.Location) (rest []byte, ok bool) {
	const layout = "Jan _2 15:04:05"
	if len(b) > len(layout) && b[len(layout)] == ' ' {
		t, err := time.ParseInLocation("2006 "+layout, strconv.Itoa(now.In(zone).Year())+" "+string(b[:len(layout)]),
			zone)
		if err == nil {
			m.time = nearest(t, now)
			return b[len(layout)+1:], true
		}
	}
	stamp, rest, ok := bytes.Cut(b, []byte(" ")) // timestamp of senders that extend the format
	if ok {
		if t, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			m.time = t
			return rest, true
		}
	}
	return nil, false
}

// nearest returns t in the year in which it is nearest to now.
func nearest(t, now time.Time) time.Time {
	const half = 183 * 24 * time.Hour
	switch d := t.Sub(now); {
	case d > half:
		return t.AddDate(-1, 0, 0)
	case d < -half:
		return t.AddDate(1, 0, 0)
	}
	return t
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

// payload returns the message as the payload of a record.
func (m *message) payload() map[string]any {
	object := map[string]any{
		"facility": facilities[m.priority/8], "severity": severities[m.priority%8], "priority": int64(m.priority),
		"message": text(m.text),
	}
	for name, value := range map[string]string{"hostname": m.host, "appname": m.app, "procid": m.process,
		"msgid": m.id} {
		if value != "" {
			object[name] = record.ValidName(value)
		}
	}
	if !m.time.IsZero() {
		object["timestamp"] = m.time.Format(time.RFC3339Nano)
	}
	if len(m.data) > 0 {
		object["structured_data"] = m.data
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

// append appends the message in the format of RFC 5424, or RFC 3164.
func (m *message) append(dst []byte, format string) []byte {
	if format == "rfc3164" {
		dst = fmt.Appendf(dst, "<%d>%s %s %s", m.priority, m.time.Format(time.Stamp), header(m.host, "-"),
			header(m.app, "conduit"))
		if m.process != "" {
			dst = fmt.Appendf(dst, "[%s]", header(m.process, "-"))
		}
		return append(append(dst, ": "...), m.text...)
	}
	const micro = "2006-01-02T15:04:05.999999Z07:00"
	dst = fmt.Appendf(dst, "<%d>1 %s %s %s %s %s -", m.priority, m.time.Format(micro), header(m.host, "-"),
		header(m.app, "-"), header(m.process, "-"), header(m.id, "-"))
	if len(m.text) > 0 {
		dst = append(append(dst, ' '), m.text...)
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
