package postgres_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// messages are server messages in hexadecimal, in the format of the documentation.
var messages = []struct {
	name, hex string
	want      pg.Message
}{
	{"begin", "42 000000000157E5F0 0000000000000000 000002DA",
		&pg.Begin{Commit: 0x157E5F0, Time: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), XID: 730}},
	{"commit", "43 00 000000000157E5F0 000000000157E620 0000000000000000",
		&pg.Commit{Commit: 0x157E5F0, End: 0x157E620}},
	{"relation", "52 00004001 7075626C696300 7400 64 0002 01 696400 00000017 FFFFFFFF 00 7800 00000019 FFFFFFFF",
		&pg.Relation{OID: 0x4001, Schema: "public", Name: "t", Identity: 'd',
			Columns: []pg.RelationColumn{{Key: true, Name: "id", Type: 23}, {Name: "x", Type: 25}}}},
	{"relation with numbers", "52 00004001 7075626C696300 7400 64 0003 00 6100 000006A4 000A0006 " +
		"00 6200 000006A4 FFFFFFFF 00 6300 000006A4 00050802",
		&pg.Relation{OID: 0x4001, Schema: "public", Name: "t", Identity: 'd',
			Columns: []pg.RelationColumn{{Name: "a", Type: pg.OIDNumeric, TypeName: "numeric(10,2)"},
				{Name: "b", Type: pg.OIDNumeric, TypeName: "numeric"},
				{Name: "c", Type: pg.OIDNumeric, TypeName: "numeric(5,-2)"}}}},
	{"insert", "49 00004001 4E 0002 74 00000001 31 6E",
		&pg.Insert{Relation: 0x4001, New: pg.Tuple{{Kind: 't', Text: []byte("1")}, {Kind: 'n'}}}},
	{"update", "55 00004001 4E 0002 74 00000001 31 75",
		&pg.Update{Relation: 0x4001, New: pg.Tuple{{Kind: 't', Text: []byte("1")}, {Kind: 'u'}}}},
	{"update of the key", "55 00004001 4B 0002 74 00000001 31 6E 4E 0002 74 00000001 32 6E",
		&pg.Update{Relation: 0x4001, OldKey: true,
			Old: pg.Tuple{{Kind: 't', Text: []byte("1")}, {Kind: 'n'}}, New: pg.Tuple{{Kind: 't', Text: []byte("2")},
				{Kind: 'n'}}}},
	{"delete", "44 00004001 4B 0001 74 00000001 31",
		&pg.Delete{Relation: 0x4001, OldKey: true, Old: pg.Tuple{{Kind: 't', Text: []byte("1")}}}},
	{"truncate", "54 00000002 00 00004001 00004002", &pg.Truncate{Relations: []uint32{0x4001, 0x4002}}},
	{"type", "59 00004001 00 00", nil},
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParse(t *testing.T) {
	for _, m := range messages {
		b := unhex(t, m.hex)
		got, err := pg.ParseMessage(b)
		if diff := cmp.Diff(m.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", m.name, err, diff)
		}
		if m.want == nil {
			continue
		}
		for n := range len(b) {
			if m.name == "commit" && n >= 18 {
				break // ignores the time
			}
			if _, err := pg.ParseMessage(b[:n]); err == nil {
				t.Errorf("%s: the first %d bytes of %d pass for a message", m.name, n, len(b))
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range messages {
		f.Add(unhex(f, m.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := pg.ParseMessage(b)
		if err != nil && m != nil {
			t.Errorf("a message comes with the error %v", err)
		}
		_, _ = pg.ParseFrame(b)
	})
}

func TestFrames(t *testing.T) {
	f, err := pg.ParseFrame(unhex(t, "77 0000000000000001 0000000000000002 0000000000000000 4242"))
	if x, ok := f.(*pg.XLogData); err != nil || !ok || x.Start != 1 || x.End != 2 || string(x.Data) != "BB" {
		t.Errorf("got %+v: %v", f, err)
	}
	f, err = pg.ParseFrame(unhex(t, "6B 0000000000000003 0000000000000000 01"))
	if k, ok := f.(*pg.Keepalive); err != nil || !ok || k.End != 3 || !k.Reply {
		t.Errorf("got %+v: %v", f, err)
	}
	status := pg.AppendStatus(nil, 5, time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC), true)
	if want := unhex(t, "72 0000000000000005 0000000000000005 0000000000000005 00000000000F4240 01"); !cmp.Equal(status,
		want) {
		t.Errorf("got %x, want %x", status, want)
	}
}

func TestLSN(t *testing.T) {
	for _, text := range []string{"0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"} {
		if l, err := pg.ParseLSN(text); err != nil || l.String() != text {
			t.Errorf("%s is read as %s: %v", text, l, err)
		}
	}
	for _, text := range []string{"", "1", "1/", "/1", "x/1", "1/100000000"} {
		if l, err := pg.ParseLSN(text); err == nil {
			t.Errorf("%q is read as %s", text, l)
		}
	}
}
