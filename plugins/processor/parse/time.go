package parse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// instant parses a time.
type instant struct {
	options
	// Formats that are tried in their order, with | between them: a layout of Go, such as 02/Jan/2006:15:04:05 -0700; a
	// format of strptime, such as %d/%b/%Y:%H:%M:%S %z; rfc3339, rfc1123, rfc1123z, rfc850, rfc822, rfc822z, ansic,
	// unixdate or rubydate; or the time since 1970 in seconds, also with a fraction (unix), in milliseconds (unix_ms),
	// microseconds (unix_us) or nanoseconds (unix_ns).
	Formats string `json:"formats" default:"rfc3339"`
	// Time zone of texts that have none, such as Europe/Zurich.
	Zone string `json:"zone" default:"UTC"`
	// Result: a time, in UTC; a text in RFC 3339, in the zone of the text; or an integer, the time since 1970 in this
	// unit.
	Output string `json:"output" default:"time" validate:"inclusion=time|rfc3339|unix|unix_ms|unix_us|unix_ns"`

	formats []timeFormat
	zone    *time.Location
	asText  bool // whether the target holds texts only
}

// timeFormat is a format of times, perhaps without a year.
type timeFormat struct {
	read     readTime
	yearless bool
	layout   string // of package time; empty for other formats
}

// readTime returns the time of a text, and whether the text has the format.
type readTime func(text string, zone *time.Location) (time.Time, bool)

var layouts = map[string]string{"rfc3339": time.RFC3339Nano, "rfc1123": time.RFC1123, "rfc1123z": time.RFC1123Z,
	"rfc850": time.RFC850, "rfc822": time.RFC822, "rfc822z": time.RFC822Z, "ansic": time.ANSIC,
	"unixdate": time.UnixDate, "rubydate": time.RubyDate}

// units are the digits of a second behind the point of each unit of time.
var units = map[string]int{"unix": 0, "unix_ms": 3, "unix_us": 6, "unix_ns": 9}

func (t *instant) compile() (parseFunc, error) {
	for format := range strings.SplitSeq(t.Formats, "|") {
		f, err := formatOf(strings.TrimSpace(format))
		if err != nil {
			return nil, sdk.SettingError{Setting: "formats", Message: err.Error()}
		}
		t.formats = append(t.formats, f)
	}
	zone, err := texttype.Zone("zone", t.Zone)
	if err != nil {
		return nil, err
	}
	t.zone = zone
	return t.parse, nil
}

// fits reports an error if target cannot hold the output.
func (t *instant) fits(target *fieldref.Ref) error {
	t.asText = target.Root() == fieldref.Metadata
	if t.Output == "rfc3339" || target.IsNested() && (!t.asText || t.Output != "time") {
		return nil
	}
	setting := "target"
	if t.Target == "" {
		setting = "field"
	}
	return sdk.SettingError{Setting: setting, Message: fmt.Sprintf("%s cannot hold the output %s: name a field inside "+
		"the key or the payload, or set output to rfc3339", target, t.Output)}
}

var (
	errNoFormat = errors.New("it has none of the formats")
	errYear     = errors.New("its year is not between 1 and 9999")
)

func (t *instant) parse(ctx context.Context, v any, m *memory) (any, error) {
	text, err := timeText(v)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, nil
	}
	for _, f := range t.formats {
		made, ok := f.read(text, t.zone)
		if !ok {
			continue
		}
		if f.yearless {
			made = withYear(made, sdk.Now(ctx))
		}
		if year := made.UTC().Year(); year < 1 || year > 9999 || made.Year() < 1 || made.Year() > 9999 {
			return nil, errYear
		}
		return t.output(made)
	}
	if len(t.formats) == 1 {
		return nil, fmt.Errorf("%s: it does not have the format %s%s", texttype.Quoted(text), t.Formats,
			t.formats[0].cause(text, t.zone))
	}
	return nil, fmt.Errorf("%s: %w", texttype.Quoted(text), errNoFormat)
}

// cause returns the reason why text does not have the format, as a clause to end an error with; "" if it is unknown.
func (f *timeFormat) cause(text string, zone *time.Location) string {
	if f.layout == "" {
		return ""
	}
	_, err := time.ParseInLocation(f.layout, text, zone)
	var wrong *time.ParseError
	switch {
	case err == nil:
		return ": the abbreviation of its time zone is unknown"
	case !errors.As(err, &wrong):
		return ""
	case wrong.Message != "":
		return wrong.Message
	}
	return fmt.Sprintf(": %s cannot be read as %s", texttype.Quoted(wrong.ValueElem), wrong.LayoutElem)
}

func (t *instant) output(made time.Time) (any, error) {
	var n int64
	switch t.Output {
	case "time":
		return made.UTC(), nil
	case "rfc3339":
		return made.Format(time.RFC3339Nano), nil
	case "unix":
		n = made.Unix()
	case "unix_ms":
		n = made.UnixMilli()
	case "unix_us":
		n = made.UnixMicro()
	default:
		if made.Year() < 1678 || made.Year() > 2261 {
			return nil, errors.New("its nanoseconds do not fit 64 bits")
		}
		n = made.UnixNano()
	}
	if t.asText {
		return strconv.FormatInt(n, 10), nil
	}
	return n, nil
}

// timeText returns the text of a time, which may be a number.
func timeText(v any) (string, error) {
	switch v := v.(type) {
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case json.Number:
		return v.String(), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	}
	text, err := textOf(v)
	return strings.TrimSpace(text), err
}

// withYear returns t, which has no year, in the year in which it is at most a day later than now.
func withYear(t, now time.Time) time.Time {
	now = now.In(t.Location())
	made := t.AddDate(now.Year(), 0, 0)
	if made.After(now.AddDate(0, 0, 1)) {
		made = t.AddDate(now.Year()-1, 0, 0)
	}
	return made
}

// formatOf returns the format that a setting names.
func formatOf(setting string) (timeFormat, error) {
	if digits, ok := units[setting]; ok {
		return timeFormat{read: func(text string, _ *time.Location) (time.Time, bool) {
			return epoch(text, digits)
		}}, nil
	}
	if strings.Contains(setting, "%") {
		return strptime(setting)
	}
	layout, ok := layouts[setting]
	if !ok {
		layout = setting
	}
	// A layout without elements is the same for all times, and one without a year for years with the same days.
	one, year := time.Date(2011, 11, 22, 13, 44, 55, 0, time.UTC), time.Date(2022, 11, 22, 13, 44, 55, 0, time.UTC)
	if other := time.Date(2012, 10, 23, 4, 45, 56, 0, time.UTC); one.Format(layout) == other.Format(layout) {
		return timeFormat{}, fmt.Errorf("%s is neither a layout nor the name of a layout", texttype.Quoted(setting))
	}
	return timeFormat{layout: layout, yearless: one.Format(layout) == year.Format(layout),
		read: func(text string, zone *time.Location) (time.Time, bool) {
			t, err := time.ParseInLocation(layout, text, zone)
			return t, err == nil && !unknownZone(t, zone)
		}}, nil
}

// unknownZone reports whether the text of t had an unknown abbreviation of a zone. The time package gives such a zone
// the offset 0.
func unknownZone(t time.Time, zone *time.Location) bool {
	if t.Location() == zone || t.Location() == time.UTC {
		return false
	}
	name, offset := t.Zone()
	return offset == 0 && name != "" && name != "GMT"
}

// end is the first second of the year 10,000.
const end = 253402300800

// epoch returns the time of a decimal number since 1970, in units of 10^-digits seconds. It takes no float, which would
// change digits.
func epoch(text string, digits int) (time.Time, bool) {
	number, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(number, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || strings.Trim(fraction, "0123456789") != "" || len(whole)+1 == len(number) {
		return time.Time{}, false
	}
	unit := uint64(1)
	for range digits {
		unit *= 10
	}
	seconds, rest := int64(n/unit), n%unit
	nanoseconds := int64(rest * (1e9 / unit))
	scale := int64(1e9 / unit)
	for i := 0; i < len(fraction) && scale >= 10; i++ {
		scale /= 10
		nanoseconds += int64(fraction[i]-'0') * scale
	}
	if seconds >= end {
		return time.Time{}, false
	}
	if negative {
		seconds, nanoseconds = -seconds, -nanoseconds
	}
	return time.Unix(seconds, nanoseconds).UTC(), true
}
