package mysql

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

// selected returns the expression that reads a column without loss of precision.
func (c *Column) selected() string {
	if c.Type == "float" { // the default text has only six digits
		return Quote(c.Name) + " * 1e0"
	}
	return Quote(c.Name)
}

// Value parses a value in the server's text format. It returns the same value as the log's decoder does for a change.
func (c *Column) Value(b []byte) any {
	text := string(b)
	switch c.Type {
	case "tinyint", "smallint", "mediumint", "year":
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			return int32(n)
		}
	case "int", "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			if c.Unsigned {
				return n
			}
			return int32(n)
		}
	case "bigint":
		if c.Unsigned {
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				return n
			}
		} else if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case "float":
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return float32(f)
		}
	case "double", "real":
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case "bit":
		return bits(b)
	case "date", "datetime", "timestamp":
		return moment(text)
	}
	if c.binary() {
		return append([]byte{}, b...)
	}
	return text
}

// binary reports whether the values of the column are bytes.
func (c *Column) binary() bool {
	switch c.Type {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector",
		"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		return true
	}
	return false
}

func bits(b []byte) any {
	var n uint64
	for _, one := range b {
		n = n<<8 | uint64(one)
	}
	return n
}

// moment parses a time; text that is no time, such as 0000-00-00, stays text.
func moment(text string) any {
	layout := "2006-01-02 15:04:05.999999"
	if len(text) == len("2006-01-02") {
		layout = "2006-01-02"
	}
	if t, err := time.Parse(layout, text); err == nil && t.Year() > 0 {
		return t
	}
	return text
}

// ofBytes returns the conversion to text for types that the log has as bytes, and nil for all others.
func (c *Column) ofBytes() func([]byte) (any, error) {
	switch c.Type {
	case "uuid":
		return padded(16, uuidText)
	case "inet6":
		return padded(16, func(b []byte) string { return addressText([16]byte(b)) })
	case "inet4":
		return padded(4, func(b []byte) string { return netip.AddrFrom4([4]byte(b)).String() })
	}
	return nil
}

// padded adds the trailing zeros that the log omits.
func padded(n int, text func([]byte) string) func([]byte) (any, error) {
	return func(b []byte) (any, error) {
		if len(b) > n {
			return nil, binlog.ErrUnconvertible
		}
		return text(append(make([]byte, 0, n), b...)[:n]), nil
	}
}

func uuidText(b []byte) string {
	h := hex.EncodeToString(b)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func addressText(b [16]byte) string {
	a := netip.AddrFrom16(b)
	return a.String()
}
