package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Lanes of the log of a container. The lines of a lane become records in their order.
const (
	laneOut   = iota // stdout
	laneErr          // stderr
	laneOther        // lines that are not in the format
	lanes
)

// streams are the names of the lanes with lines in the format.
var streams = [...]string{laneOut: "stdout", laneErr: "stderr"}

// logLine is a parsed line of the log of a container.
type logLine struct {
	lane    int
	created int64  // Unix nanoseconds
	partial bool   // the next line of the stream continues the text
	text    []byte // without its newline
}

// logParser parses the lines of logs of containers. The zero logParser is ready to use.
type logParser struct {
	format string // cri, docker or auto
	minute [minuteLength]byte
	begin  int64 // Unix time of minute; valid if hasTime
	known  bool  // minute and begin are set
}

var (
	errNoTime   = errors.New("it does not begin with a time of RFC 3339")
	errNoStream = errors.New("neither stdout nor stderr follows the time")
	errNoTag    = errors.New("neither P nor F follows the stream")
	errNoJSON   = errors.New("it is not an object of JSON")
	errNoDocker = errors.New(`its object has no "stream" with stdout or stderr, or no "time" of RFC 3339`)
)

// parse parses a line. The text of the result shares the memory of the line, and parse may change that memory if it
// returns no error.
func (p *logParser) parse(line []byte) (logLine, error) {
	if p.format == "docker" || p.format == "auto" && len(line) > 0 && line[0] == '{' {
		return p.docker(line)
	}
	return p.cri(line)
}

// cri parses a line of the Container Runtime Interface:
//
//	2016-10-06T00:17:09.669794202Z stdout F text
//
// The tag is P for a partial line and F for the end of a line. More tags may follow it, separated by colons.
func (p *logParser) cri(line []byte) (l logLine, err error) {
	at, n := p.time(line)
	if n == 0 || n == len(line) || line[n] != ' ' {
		return l, errNoTime
	}
	l.created = at
	rest := line[n+1:]
	if len(rest) < 7 || rest[6] != ' ' {
		return l, errNoStream
	}
	switch string(rest[:6]) {
	case "stdout":
	case "stderr":
		l.lane = laneErr
	default:
		return l, errNoStream
	}
	rest = rest[7:]
	if len(rest) == 0 || rest[0] != 'F' && rest[0] != 'P' {
		return l, errNoTag
	}
	l.partial = rest[0] == 'P'
	switch rest = rest[1:]; {
	case len(rest) == 0: // an editor removed the space behind the tag
		return l, nil
	case rest[0] == ':':
		end := bytes.IndexByte(rest, ' ')
		if end < 0 {
			return l, errNoTag
		}
		rest = rest[end:]
	case rest[0] != ' ':
		return l, errNoTag
	}
	l.text = rest[1:]
	return l, nil
}

// docker parses a line of the log driver json-file:
//
//	{"log":"text\n","stream":"stdout","time":"2016-10-06T00:17:09.669794202Z"}
//
// A text without a newline at its end is partial.
func (p *logParser) docker(line []byte) (logLine, error) {
	if l, ok := p.quickDocker(line); ok {
		return l, nil
	}
	var o struct {
		Log    string `json:"log"`
		Stream string `json:"stream"`
		Time   string `json:"time"`
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return logLine{}, errNoJSON
	}
	l := logLine{text: []byte(o.Log)}
	at, n := p.time([]byte(o.Time))
	if n == 0 || n != len(o.Time) || !l.setStream([]byte(o.Stream)) {
		return l, errNoDocker
	}
	l.created = at
	l.endText()
	return l, nil
}

func (l *logLine) setStream(name []byte) bool {
	switch string(name) {
	case "stdout":
		l.lane = laneOut
	case "stderr":
		l.lane = laneErr
	default:
		return false
	}
	return true
}

// endText removes the newline at the end of the text. Without one, the text is partial.
func (l *logLine) endText() {
	n := len(l.text)
	if l.partial = n == 0 || l.text[n-1] != '\n'; !l.partial {
		l.text = l.text[:n-1]
	}
}

var (
	dockerBegin  = []byte(`{"log":"`)
	dockerStream = []byte(`","stream":"`)
	dockerTime   = []byte(`","time":"`)
	dockerEnd    = []byte(`"}`)
)

// quickDocker parses a line as Docker writes it without attributes. It reports whether it could; if not, the line is
// unchanged.
func (p *logParser) quickDocker(line []byte) (l logLine, ok bool) {
	rest, ok := bytes.CutPrefix(line, dockerBegin)
	if !ok {
		return l, false
	}
	end := endOfString(rest)
	if end < 0 {
		return l, false
	}
	l.text = rest[:end]
	if rest, ok = bytes.CutPrefix(rest[end:], dockerStream); !ok {
		return l, false
	}
	if end = bytes.IndexByte(rest, '"'); end < 0 || !l.setStream(rest[:end]) {
		return l, false
	}
	if rest, ok = bytes.CutPrefix(rest[end:], dockerTime); !ok {
		return l, false
	}
	at, n := p.time(rest)
	if n == 0 || !bytes.Equal(rest[n:], dockerEnd) {
		return l, false
	}
	l.created = at
	if !canUnescape(l.text) {
		return l, false
	}
	l.text = unescape(l.text)
	l.endText()
	return l, true
}

// endOfString returns the index of the quotation mark that ends the string of JSON at the beginning of b, or -1.
func endOfString(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return -1
		}
		at += i
		escapes := 0
		for escapes < at && b[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
		at++
	}
}

// escapes are the characters behind a backslash in JSON and their meanings.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// canUnescape reports whether unescape can convert the text. It cannot convert surrogates.
func canUnescape(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return true
		}
		if text = text[i+1:]; text[0] != 'u' {
			if escapes[text[0]] == 0 {
				return false
			}
			text = text[1:]
			continue
		}
		r, ok := fourHex(text[1:])
		if !ok || utf16.IsSurrogate(r) {
			return false
		}
		text = text[5:]
	}
}

// unescape converts the content of a string of JSON in place.
func unescape(text []byte) []byte {
	i := bytes.IndexByte(text, '\\')
	if i < 0 {
		return text
	}
	to := text[:i]
	for {
		if text[i+1] == 'u' {
			r, _ := fourHex(text[i+2:])
			to = utf8.AppendRune(to, r)
			text = text[i+6:]
		} else {
			to = append(to, escapes[text[i+1]])
			text = text[i+2:]
		}
		if i = bytes.IndexByte(text, '\\'); i < 0 {
			return append(to, text...)
		}
		to = append(to, text[:i]...)
	}
}

func fourHex(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

const minuteLength = len("2006-01-02T15:04")

// time parses the time of RFC 3339 at the beginning of b. It returns Unix nanoseconds, and the length of the time; 0 if
// there is none.
func (p *logParser) time(b []byte) (ns int64, n int) {
	if len(b) < minuteLength+len(":05Z") || b[minuteLength] != ':' {
		return 0, 0
	}
	if !p.known || string(b[:minuteLength]) != string(p.minute[:]) { // lines of a minute are neighbours
		t, err := time.Parse("2006-01-02T15:04", string(b[:minuteLength]))
		if err != nil || t.Year() < 1678 || t.Year() > 2261 { // the range of Unix nanoseconds
			return 0, 0
		}
		p.begin, p.known = t.Unix(), true
		copy(p.minute[:], b)
	}
	tens, ones := b[minuteLength+1]-'0', b[minuteLength+2]-'0'
	if tens > 5 || ones > 9 {
		return 0, 0
	}
	at := minuteLength + 3
	fraction, unit := int64(0), int64(time.Second)
	if b[at] == '.' || b[at] == ',' {
		first := at + 1
		for at = first; at < len(b) && b[at]-'0' <= 9; at++ {
			if unit > 1 { // further digits are less than a nanosecond
				unit /= 10
				fraction += int64(b[at]-'0') * unit
			}
		}
		if at == first {
			return 0, 0
		}
	}
	offset, length := zone(b[at:])
	if length == 0 {
		return 0, 0
	}
	return (p.begin+int64(tens*10+ones)-offset)*int64(time.Second) + fraction, at + length
}

// zone parses Z, or an offset such as +02:00, at the beginning of b. It returns the seconds east of UTC, and the
// length, which is 0 if there is no zone.
func zone(b []byte) (seconds int64, n int) {
	if len(b) > 0 && b[0] == 'Z' {
		return 0, 1
	}
	if len(b) < len("+00:00") || b[0] != '+' && b[0] != '-' || b[3] != ':' {
		return 0, 0
	}
	for _, i := range []int{1, 2, 4, 5} {
		if b[i]-'0' > 9 {
			return 0, 0
		}
	}
	hours, minutes := int64(b[1]-'0')*10+int64(b[2]-'0'), int64(b[4]-'0')*10+int64(b[5]-'0')
	if hours > 23 || minutes > 59 {
		return 0, 0
	}
	seconds = hours*3600 + minutes*60
	if b[0] == '-' {
		seconds = -seconds
	}
	return seconds, len("+00:00")
}
