package schema

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/texts"
)

// json decodes text with the logical type json.
func (d *decoder) json(text []byte) (any, error) {
	for _, c := range text { // characters whose values take much more memory than the text
		memory := 0
		switch c {
		case '{', '[':
			memory = objectMemory
		case ',', ':':
			memory = memberMemory
		}
		if err := d.spend(memory); err != nil {
			return nil, err
		}
	}
	if !json.Valid(text) {
		return nil, errors.New("text with the logical type json is not valid JSON")
	}
	var value record.Data
	if err := value.UnmarshalJSON(append(append([]byte(`{"v":`), text...), '}')); err != nil {
		return nil, err
	}
	m, _ := value.Structured()
	return m["v"], nil
}

// uuidBytes returns the bytes of a UUID in its text form, with or without hyphens.
func uuidBytes(text string) ([]byte, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		return nil, fmt.Errorf("%.50q is not a UUID", text)
	}
	return b, nil
}

// durationText returns an Avro duration in ISO 8601: P1M2DT3.004S. The input is three numbers of four bytes each:
// months, days and milliseconds. The form keeps the three apart.
func durationText(b []byte) string {
	months, days, millis := binary.LittleEndian.Uint32(b),
		binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	text := "P"
	if months > 0 {
		text += strconv.FormatUint(uint64(months), 10) + "M"
	}
	if days > 0 {
		text += strconv.FormatUint(uint64(days), 10) + "D"
	}
	if millis > 0 || text == "P" {
		text += "T" + strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", millis/1000, millis%1000), "0"),
			".") + "S"
	}
	return text
}

var duration = texts.Regexp(
	`^P(?:(\d{1,9})Y)?(?:(\d{1,10})M)?(?:(\d{1,9})W)?(?:(\d{1,10})D)?` +
		`(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,3}))?S)?)?$`)

var errDuration = errors.New("not a duration of whole months, days and milliseconds, such as P1M2DT3.004S")

// durationBytes is the reverse of durationText. It also accepts years, weeks, hours and minutes.
func durationBytes(text string) ([]byte, error) {
	m := duration().FindStringSubmatch(text)
	if m == nil || text == "P" || strings.HasSuffix(text, "T") {
		return nil, fmt.Errorf("%.50q is %w", text, errDuration)
	}
	n := func(i int) uint64 {
		v, _ := strconv.ParseUint(m[i], 10, 64)
		return v
	}
	millis, _ := strconv.ParseUint((m[8] + "000")[:3], 10, 64)
	b := make([]byte, 0, 12)
	for _, unit := range []uint64{12*n(1) + n(2), 7*n(3) + n(4), 3_600_000*n(5) + 60_000*n(6) + 1000*n(7) + millis} {
		if unit > 1<<32-1 {
			return nil, errRange
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(unit))
	}
	return b, nil
}
