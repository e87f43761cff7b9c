package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"text/template/parse"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// strftimeName is the function that formats a time in a template of a path.
const strftimeName = "strftime"

// directives are the directives of strftime with their layouts of package time. Others are in appendDirective.
var directives = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
	'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'j': "002", 'z': "-0700", 'Z': "MST", 'F': "2006-01-02",
	'T': "15:04:05", 'R': "15:04", 'L': ".000", 'f': ".000000",
}

// checkStrftime returns an error for a format with an unknown directive.
func checkStrftime(format string) error {
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			return nil
		}
		if i+1 == len(format) {
			return errors.New("strftime: the format ends with %: write %% for a percent sign")
		}
		c := format[i+1]
		if _, ok := directives[c]; !ok && strings.IndexByte("%sGVu", c) < 0 {
			return fmt.Errorf("strftime: %%%c is no directive: there are %%Y %%y %%m %%d %%e %%j %%H %%I %%M %%S %%L %%f "+
				"%%p %%B %%b %%A %%a %%u %%G %%V %%s %%z %%Z %%F %%T %%R and %%%%", c)
		}
		format = format[i+2:]
	}
}

// appendStrftime appends a time in a format that was checked.
func appendStrftime(dst []byte, format string, t time.Time) []byte {
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 || i+1 == len(format) {
			return append(dst, format...)
		}
		dst = appendDirective(append(dst, format[:i]...), format[i+1], t)
		format = format[i+2:]
	}
}

func appendDirective(dst []byte, c byte, t time.Time) []byte {
	switch c {
	case '%':
		return append(dst, '%')
	case 's':
		return strconv.AppendInt(dst, t.Unix(), 10)
	case 'G':
		year, _ := t.ISOWeek()
		return fmt.Appendf(dst, "%04d", year)
	case 'V':
		_, week := t.ISOWeek()
		return fmt.Appendf(dst, "%02d", week)
	case 'u': // Monday is 1, Sunday 7
		return strconv.AppendInt(dst, int64(t.Weekday()+6)%7+1, 10)
	case 'L', 'f':
		return append(dst, t.Format(directives[c])[1:]...)
	}
	return t.AppendFormat(dst, directives[c])
}

var errNoTime = errors.New("strftime: the record has no time: neither " + record.KeyCreatedAt + " nor " +
	record.KeyReadAt + " in its metadata is one")

// timeOf returns when a record was created in its source, or else when it was read.
func timeOf(r *record.Record) (time.Time, bool) {
	for _, key := range [...]string{record.KeyCreatedAt, record.KeyReadAt} {
		if v, _ := metadataValue(r, key); v.kind == str {
			if ns, err := strconv.ParseInt(v.s, 10, 64); err == nil {
				return time.Unix(0, ns), true
			}
		}
	}
	return time.Time{}, false
}

// strftime is the function strftimeName: with a format alone it formats the time of the record.
func (m *machine) strftime(format string, values ...any) (string, error) {
	if err := checkStrftime(format); err != nil {
		return "", err
	}
	var t time.Time
	var ok bool
	switch {
	case len(values) == 0:
		if t, ok = timeOf(m.record); !ok {
			return "", errNoTime
		}
	case len(values) > 1:
		return "", errors.New("strftime: it has a format, and at most one time")
	default:
		if t, ok = values[0].(time.Time); !ok {
			value, err := textFor(values[0])
			if err == nil {
				t, err = time.Parse(time.RFC3339Nano, value)
			}
			if err != nil {
				return "", fmt.Errorf("strftime: %.100q is no time: it must be one of RFC 3339, such as "+
					"2026-01-31T12:00:00Z", value)
			}
		}
	}
	return string(appendStrftime(nil, format, t.In(m.path.zone))), nil
}

// strftime compiles a call with a constant format and the time of the record.
func (c compiler) strftime(args []parse.Node) expression {
	if c.path == nil || len(args) != 1 {
		return nil
	}
	s, ok := args[0].(*parse.StringNode)
	if !ok || checkStrftime(s.Text) != nil {
		return nil
	}
	type formatted struct {
		second int64
		text   string
	}
	fine := strings.Contains(s.Text, "%L") || strings.Contains(s.Text, "%f")
	var last atomic.Pointer[formatted]
	return func(r *record.Record) (value, bool) {
		t, ok := timeOf(r)
		if !ok {
			return value{}, false // text/template has the error
		}
		now := last.Load()
		if now == nil || fine || now.second != t.Unix() {
			now = &formatted{t.Unix(), string(appendStrftime(nil, s.Text, t.In(c.path.zone)))}
			last.Store(now)
		}
		return value{kind: str, s: now.text}, true
	}
}
