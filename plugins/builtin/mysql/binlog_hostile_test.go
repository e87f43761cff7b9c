package mysql_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

// lengthEncoded returns a length of four bytes or more as a length-encoded integer.
func lengthEncoded(n int) []byte { return binary.LittleEndian.AppendUint64([]byte{0xfe}, uint64(n)) }

// tableMap returns a table map event whose columns all have the type typ, with optional metadata.
func tableMap(id byte, columns int, typ byte, meta []byte, optional ...byte) []byte {
	b := append([]byte{id, 0, 0, 0, 0, 0, 1, 0, 1, 's', 0, 1, 't', 0}, lengthEncoded(columns)...)
	b = append(b, bytes.Repeat([]byte{typ}, columns)...)
	all := bytes.Repeat(meta, columns)
	b = append(append(b, lengthEncoded(len(all))...), all...)
	return event(19, 0, append(append(b, make([]byte, (columns+7)/8)...), optional...))
}

// insert returns a rows event that inserts one row without NULLs.
func insert(id byte, columns int, row []byte) []byte {
	b := append([]byte{id, 0, 0, 0, 0, 0, 1, 0, 2, 0}, lengthEncoded(columns)...)
	b = append(b, bytes.Repeat([]byte{0xff}, (columns+7)/8)...)
	return event(30, 0, append(append(b, make([]byte, (columns+7)/8)...), row...))
}

// zeros returns n zeros in the format of MariaDB's compressed columns.
func zeros(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(z, zero{}, int64(n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0x8c}, uint32(n)), b.Bytes()...)
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// blob returns b after its length in four bytes.
func blob(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// payloadOf returns a transaction payload event that contains events, compressed or not.
func payloadOf(t *testing.T, compressed bool, events []byte) []byte {
	t.Helper()
	if !compressed {
		return event(40, 0, append([]byte{2, 3, 0xfc, 0xff, 0, 0}, events...))
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return event(40, 0, append([]byte{2, 1, 0, 0}, z.EncodeAll(events, nil)...))
}

// laughs returns binary JSON of nested arrays, 90 levels deep: both elements of each array are the same array.
func laughs() []byte {
	b := []byte{2}
	for range 90 {
		b = append(b, 2, 0, 0xff, 0xff, 2, 10, 0, 2, 10, 0)
	}
	b = append(b, 0, 0, 4, 0)
	for at := 1; at+10 < len(b); at += 10 {
		binary.LittleEndian.PutUint16(b[at+2:], uint16(len(b)-at))
	}
	return b
}

// wholly decodes events with their rows, including the events of compressed transactions.
func wholly(d *binlog.Decoder, events iter.Seq[[]byte]) error {
	for raw := range events {
		_, e, err := d.Decode(sealed(raw))
		for {
			if err != nil {
				return err
			}
			if rows, ok := e.(*binlog.Rows); ok {
				row := make([]any, len(rows.Table.Columns))
				for rows.More() {
					if err := rows.Next(row, row, false); err != nil {
						return err
					}
				}
			}
			p, ok := e.(*binlog.Payload)
			if !ok {
				break
			}
			defer p.Close()
			if _, e, err = p.Next(); errors.Is(err, io.EOF) {
				break
			}
		}
	}
	return nil
}

// events returns the events in their order.
func events(all ...[]byte) iter.Seq[[]byte] { return slices.Values(all) }

// TestHostileEvents decodes small events of a hostile server that expand to huge values. The decoder must refuse each
// before it allocates much memory.
func TestHostileEvents(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	const most = 192 << 20 // bytes that a case may allocate, including those of decompressors
	wide := zeros(t, 20<<20)
	large := tableMap(1, 1, 247, []byte{247, 2}, append(append([]byte{6}, lengthEncoded(2<<20)...),
		append(lengthEncoded(1), append(lengthEncoded(2<<20-18), make([]byte, 2<<20-18)...)...)...)...)
	maps := func(yield func([]byte) bool) { // of many tables
		for large[19] = 0; large[19] < 100 && yield(large); large[19]++ {
		}
	}
	nested := event(16, 0, make([]byte, 8))
	for range 1000 {
		nested = payloadOf(t, false, nested)
	}
	for name, c := range map[string]struct {
		events iter.Seq[[]byte]
		why    string // empty: the value stays bytes
	}{
		"JSON of shared lists": {events(tableMap(1, 1, 245, []byte{4}), insert(1, 1, blob(laughs()))), ""},
		"compressed value": {events(tableMap(1, 1, 140, []byte{4}), insert(1, 1, blob(zeros(t, 40<<20)))),
			"the decompressed data has 41943040 bytes"},
		"compressed values": {events(tableMap(1, 20, 140, []byte{4}), insert(1, 20, bytes.Repeat(blob(wide), 20))),
			"the decompressed data has"},
		"compressed values that lie": {events(tableMap(1, 1, 140, []byte{4}),
			insert(1, 1, blob([]byte{0x8c, 0x3f, 0xff, 0xff, 0xff, 1, 2}))), "the decompressed data " +
			"has 1073741823 bytes"},
		"compressed statement": {events(event(165, 0, append(make([]byte, 14), append(
			[]byte{0x84, 0x3f, 0xff, 0xff, 0xff}, 0x78, 0x9c)...))), "the decompressed data has 1073741823 bytes"},
		"compressed event": {events(payloadOf(t, true, binary.LittleEndian.AppendUint32(append(make([]byte, 9),
			0xff, 0xff, 0xff, 0x3f), 0)[:19])), "the decompressed data has 1073741823 bytes"},
		"nested transactions":            {events(nested), "damaged"},
		"compressed nested transactions": {events(payloadOf(t, true, payloadOf(t, true, nested))), "damaged"},
		"descriptions of tables":         {maps, "a transaction describes"},
		"a long description":             {events(tableMap(1, 1, 3, nil, make([]byte, 17<<20)...)), "maximum of 16777216"},
		"members": {events(tableMap(1, 1, 247, []byte{247, 2}, append(append([]byte{6}, lengthEncoded(9+4<<20)...),
			append(lengthEncoded(4<<20), make([]byte, 4<<20)...)...)...)), "damaged"},
		"SET of long members": {events(tableMap(1, 60, 248, []byte{248, 8}, append(append([]byte{5},
			lengthEncoded(60*(1+9+64<<10))...), bytes.Repeat(append(append([]byte{1}, lengthEncoded(64<<10)...),
			make([]byte, 64<<10)...), 60)...)...),
			insert(1, 60, bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 60))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := allocated()
			err := wholly(new(binlog.Decoder), c.events)
			if n := allocated() - before; n > most {
				t.Errorf("%d bytes were allocated, more than %d", n, most)
			}
			if (err != nil) != (c.why != "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v, want %q", err, c.why)
			}
		})
	}
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
