package mysql_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

// recorded returns the events of a log file written by MariaDB 10.11.
func recorded(t testing.TB) (events [][]byte) {
	t.Helper()
	content, err := os.ReadFile("testdata/mariadb.binlog")
	if err != nil {
		t.Fatal(err)
	}
	for content = content[4:]; len(content) > 0; {
		n := binary.LittleEndian.Uint32(content[9:])
		events, content = append(events, content[:n]), content[n:]
	}
	return events
}

// show formats a decoded event as lines.
func show(h *binlog.Header, event any) (lines []string) {
	switch e := event.(type) {
	case *binlog.GTID:
		return []string{fmt.Sprintf("gtid %d-%d-%d %x standalone %v", e.Domain, e.ServerID, e.Sequence, e.UUID,
			e.Standalone)}
	case *binlog.Query:
		return []string{"query " + e.Schema + " " + e.SQL}
	case *binlog.Rows:
		before, after := make([]any, len(e.Table.Columns)), make([]any, len(e.Table.Columns))
		for e.More() {
			clear(before)
			clear(after)
			if err := e.Next(before, after, false); err != nil {
				return append(lines, err.Error())
			}
			lines = append(lines, fmt.Sprintf("%d %s %s -> %s", e.Kind, e.Table.Name, values(before), values(after)))
		}
		return lines
	case *binlog.Rotate:
		return []string{fmt.Sprintf("rotate %s %d", e.File, e.Pos)}
	case nil:
		return nil
	}
	return []string{fmt.Sprintf("%T", event)}
}

func values(row []any) string {
	var all []string
	for _, v := range row {
		switch v := v.(type) {
		case time.Time:
			all = append(all, v.Format("2006-01-02T15:04:05.999999"))
		case string:
			if len(v) > 30 {
				v = fmt.Sprintf("%d letters %.1s", len(v), v)
			}
			all = append(all, fmt.Sprintf("%q", v))
		default:
			all = append(all, fmt.Sprint(v))
		}
	}
	return strings.Join(all, "|")
}

// TestRecorded decodes a log with columns of many types, rows events of version 1, compressed events and events without
// column names.
func TestRecorded(t *testing.T) {
	t.Parallel()
	var d binlog.Decoder
	var got strings.Builder
	for _, raw := range recorded(t) {
		h, event, err := d.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range show(&h, event) {
			fmt.Fprintln(&got, line)
		}
	}
	want, err := os.ReadFile("testdata/mariadb.want")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// TestTableMap reads the metadata of columns from table map events.
func TestTableMap(t *testing.T) {
	t.Parallel()
	var d binlog.Decoder
	var table *binlog.Table
	for _, raw := range recorded(t) {
		_, event, err := d.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if found, ok := event.(*binlog.Table); ok && table == nil {
			table = found
		}
	}
	if table == nil || table.Schema != "rec" || table.Name != "t" || !table.Named || fmt.Sprint(table.Key) != "[0]" {
		t.Fatalf("the table is %+v", table)
	}
	var all []string
	for _, c := range table.Columns {
		all = append(all, fmt.Sprintf("%s %d %v %d %v", c.Name, c.Type, c.Unsigned, c.Charset, c.Values))
	}
	for i, want := range map[int]string{0: "id 3 true 0 []", 1: "a 1 false 0 []", 11: "c 254 false 8 []",
		12: "v 15 false 8 []", 14: "e 247 false 8 [x y]", 15: "s 248 false 8 [p q r]"} {
		if all[i] != want {
			t.Errorf("column %d is %s, want %s", i, all[i], want)
		}
	}
}

// TestDamaged changes each byte of an event: the checksum detects it.
func TestDamaged(t *testing.T) {
	t.Parallel()
	events := recorded(t)
	for i, raw := range events[1:] {
		for at := range raw {
			var d binlog.Decoder
			if _, _, err := d.Decode(events[0]); err != nil {
				t.Fatal(err)
			}
			damaged := bytes.Clone(raw)
			damaged[at] ^= 0x40
			if at == 4 && damaged[4] == 15 {
				continue
			}
			if _, _, err := d.Decode(damaged); err == nil {
				t.Fatalf("event %d with byte %d changed is not noticed", i+1, at)
			}
		}
	}
}

// event returns an event without a checksum.
func event(typ byte, end uint32, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 1767323045)
	b = append(b, typ)
	b = binary.LittleEndian.AppendUint32(b, 7)
	b = binary.LittleEndian.AppendUint32(b, uint32(19+len(body)))
	b = binary.LittleEndian.AppendUint32(b, end)
	return append(append(b, 0, 0), body...)
}

// sealed appends the checksum to an event.
func sealed(e []byte) []byte {
	e = bytes.Clone(e)
	binary.LittleEndian.PutUint32(e[9:], uint32(len(e)+4))
	return binary.LittleEndian.AppendUint32(e, crc32.ChecksumIEEE(e))
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMySQLGTID reads the event with which MySQL begins a transaction: flags, UUID, number, kind 2, two logical
// timestamps, and the microseconds of the commit.
func TestMySQLGTID(t *testing.T) {
	t.Parallel()
	var d binlog.Decoder
	body := unhex(t, "01 3e11fa4771ca11e19e33c80aa9429562 1700000000000000 02 0100000000000000 0200000000000000 "+
		"40e2010000000 0")
	_, got, err := d.Decode(sealed(event(33, 0, body)))
	g, ok := got.(*binlog.GTID)
	if err != nil || !ok || hex.EncodeToString(g.UUID[:]) != "3e11fa4771ca11e19e33c80aa9429562" || g.Sequence != 23 ||
		g.Committed != 123456 || g.MariaDB {
		t.Errorf("got %+v, %v", got, err)
	}
	_, got, err = d.Decode(sealed(event(34, 0, body)))
	if g, ok := got.(*binlog.GTID); err != nil || !ok || g.Sequence != 0 {
		t.Errorf("an anonymous transaction is %+v, %v", got, err)
	}
}

// TestPayload reads a transaction that MySQL compressed: fields for the compression, the size, an end mark, and the
// events without checksums.
func TestPayload(t *testing.T) {
	t.Parallel()
	inner := bytes.Join([][]byte{
		event(19, 0, unhex(t, "6e0000000000 0100 01 73 00 01 74 00 01 03 00 00")), // s.t with an INT
		event(30, 0, unhex(t, "6e0000000000 0100 0200 01 01 00 2a000000 00 2b000000")),
		event(16, 0, make([]byte, 8)),
	}, nil)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"zstd": append(unhex(t, "02 01 00 01 03 fc"+fmt.Sprintf("%02x%02x", len(inner)&0xff, len(inner)>>8)+"00"),
			z.EncodeAll(inner, nil)...),
		"none": append(unhex(t, "02 03 fcff00 00"), inner...),
	} {
		var d binlog.Decoder
		_, got, err := d.Decode(sealed(event(40, 0, body)))
		p, ok := got.(*binlog.Payload)
		if err != nil || !ok {
			t.Fatalf("%s: got %v, %v", name, got, err)
		}
		defer p.Close()
		var lines []string
		for {
			h, e, err := p.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, show(&h, e)...)
		}
		if got := strings.Join(lines, "\n"); got != "*binlog.Table\n0 t <nil> -> 42\n0 t <nil> -> 43\n*binlog.XID" {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

// TestJSON reads binary JSON as MySQL documents it.
func TestJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, doc, want string }{
		{"nothing", "", `null`},
		{"literals", "02 0300 0d00 040000 040100 040200", `[null, true, false]`},
		{"inline integers", "02 0200 0a00 05ffff 06ffff", `[-1, 65535]`},
		{"object", "00 0100 0c00 0b00 0100 050700 61", `{"a": 7}`},
		{"nested object", "00 0100 1400 0b00 0100 000c00 61 0000 0400 00000000", `{"a": {}}`},
		{"string", "0c 05 6865220a3c", `"he\"\n<"`},
		{"int32", "07 feffffff", `-2`}, {"uint32", "08 ffffffff", `4294967295`}, {"int64", "09 ffffffffffffffff", `-1`},
		{"uint64", "0a ffffffffffffffff", `18446744073709551615`},
		{"double", "0b 000000000000f83f", `1.5`}, {"whole double", "0b 0000000000000040", `2.0`},
		{"decimal", "0f f6 04 0402 8c22", `12.34`},
		{"date", "0f 0a 08 0000000000c6b819", `"2026-01-03"`},
		{"large array", "03 01000000 0d000000 05 01000000", `[1]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			doc := unhex(t, c.doc)
			var d binlog.Decoder
			if _, _, err := d.Decode(sealed(event(19, 0,
				unhex(t, "6e0000000000 0100 01 73 00 01 74 00 01 f5 01 04 00")))); err != nil {
				t.Fatal(err)
			}
			row := append(binary.LittleEndian.AppendUint32(unhex(t, "6e0000000000 0100 0200 01 01 00"),
				uint32(len(doc))), doc...)
			h, e, err := d.Decode(sealed(event(30, 0, row)))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := show(&h, e)[0], fmt.Sprintf("0 t <nil> -> %q", c.want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestUnsupported checks the errors for unsupported events.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	for typ, words := range map[byte]string{18: "LOAD DATA", 39: "binlog_row_value_options", 42: "tag"} {
		var d binlog.Decoder
		_, e, err := d.Decode(sealed(event(typ, 0, make([]byte, 40))))
		if u, ok := e.(*binlog.Unsupported); err != nil || !ok || !strings.Contains(u.Reason, words) {
			t.Errorf("event %d is %+v, %v", typ, e, err)
		}
	}
}

// FuzzDecode decodes arbitrary bytes after a log that describes tables.
func FuzzDecode(f *testing.F) {
	events := recorded(f)
	for _, raw := range events {
		f.Add(raw[:len(raw)-4])
	}
	f.Add(event(40, 0, []byte{2, 3, 0xfc, 0xff, 0, 0}))
	f.Add(event(33, 0, make([]byte, 60)))
	f.Add(event(30, 0, make([]byte, 60)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d binlog.Decoder
		for _, known := range events {
			if _, _, err := d.Decode(known); err != nil {
				t.Fatal(err)
			}
		}
		if len(raw) < 19 {
			return
		}
		h, e, err := d.Decode(sealed(raw))
		if err != nil {
			return
		}
		p, ok := e.(*binlog.Payload)
		if !ok {
			show(&h, e)
			return
		}
		defer p.Close()
		for {
			h, e, err := p.Next()
			if err != nil {
				return
			}
			show(&h, e)
		}
	})
}

// repeated returns binary JSON of nested arrays whose elements all have the same bytes, after its length.
func repeated() []byte {
	const depth, items = 20, 16
	b := []byte{0, 0, 4, 0}
	for range depth {
		outer := binary.LittleEndian.AppendUint16(nil, items)
		outer = binary.LittleEndian.AppendUint16(outer, uint16(4+3*items+len(b)))
		outer = append(outer, bytes.Repeat([]byte{2, 4 + 3*items, 0}, items)...)
		b = append(outer, b...)
	}
	b = append([]byte{2}, b...)
	return append(binary.LittleEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// TestTinyElements refuses table map events that declare more values or key columns than they have.
func TestTinyElements(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 2_000_000)
	for name, more := range map[string][]byte{
		"values": append(unhex(t, "06 fd84841e fd80841e"), zeros...),
		"key":    append(unhex(t, "08 fd80841e"), zeros...),
	} {
		var d binlog.Decoder
		body := append(unhex(t, "6e0000000000 0100 01 73 00 01 74 00 01 fe 02 f701 00"), more...)
		if _, _, err := d.Decode(sealed(event(19, 0, body))); !errors.Is(err, binlog.ErrCorrupt) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestBadValues keeps a value that cannot be decoded as bytes or by its number, and still decodes the values after it.
func TestBadValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		column binlog.Column
		data   string
		want   string
	}{
		{"JSON", binlog.Column{Type: binlog.TypeJSON, Meta: 1}, "03 00ffff", "[0 255 255]"},
		{"JSON that is too deep", binlog.Column{Type: binlog.TypeJSON, Meta: 2}, "0400 0201 00ff", "[2 1 0 255]"},
		{"JSON that repeats its bytes", binlog.Column{Type: binlog.TypeJSON, Meta: 2}, hex.EncodeToString(repeated()),
			fmt.Sprint(repeated()[2:])},
		{"compressed", binlog.Column{Type: binlog.TypeBlobCompressed, Meta: 1}, "03 81ffff", "[129 255 255]"},
		{"ENUM", binlog.Column{Type: binlog.TypeEnum, Meta: 1, Values: []string{"a"}}, "07", "7"},
		{"SET", binlog.Column{Type: binlog.TypeSet, Meta: 1, Values: []string{"a"}}, "05", "a,3"},
		{"text", binlog.Column{Type: binlog.TypeBlob, Meta: 1, Convert: func([]byte) (any, error) {
			return nil, binlog.ErrUnconvertible
		}}, "01 e9", "[233]"},
		{"date", binlog.Column{Type: binlog.TypeDate}, "ffffff", "32767-15-31"},
		{"no date", binlog.Column{Type: binlog.TypeDate}, "000000", "0000-00-00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var d binlog.Decoder
			_, e,
				err := d.Decode(sealed(event(19, 0, unhex(t, "6e0000000000 0100 01 73 00 01 74 00 02 fc01 01 01 00"))))
			if err != nil {
				t.Fatal(err)
			}
			table := e.(*binlog.Table)
			table.Columns = []binlog.Column{c.column, {Type: binlog.TypeTiny}}
			_, e, err = d.Decode(sealed(event(30, 0,
				append(unhex(t, "6e0000000000 0100 0200 02 03 00"), append(unhex(t, c.data), 42)...))))
			if err != nil {
				t.Fatal(err)
			}
			row := make([]any, 2)
			if err := e.(*binlog.Rows).Next(nil, row, false); err != nil || fmt.Sprint(row[0]) != c.want ||
				row[1] != int32(42) {
				t.Errorf("got %v, %v, want %s", row, err, c.want)
			}
		})
	}
}
