package mysql_test

import (
	"encoding/hex"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

const (
	one = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	two = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
)

func parse(t *testing.T, text string) binlog.GTIDSet {
	t.Helper()
	s, err := binlog.ParseGTIDSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "0-1-5": "0-1-5", "2-3-4,0-1-18446744073709551615": "0-1-18446744073709551615,2-3-4",
		one + ":5": one + ":5",
		" " + two + ":1-3:4 ,\n" + one + ":7:1-5:3-6": one + ":1-7," + two + ":1-4",
		one + ":9-10:1-2": one + ":1-2:9-10",
	} {
		s := parse(t, text)
		if got := s.String(); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"0-1", "a-b-c", one + ":", one + ":0", one + ":5-3", "xyz:1", one + ":-1",
		"0-1-2-3"} {
		if s, err := binlog.ParseGTIDSet(text); err == nil {
			t.Errorf("%q is taken as %q", text, s.String())
		}
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	s := parse(t, one+":1-5")
	before := s.Clone()
	u, _ := hex.DecodeString("3e11fa4771ca11e19e33c80aa9429562")
	s.AddMySQL([16]byte(u), 6)
	s.AddMySQL([16]byte(u), 9)
	s.AddMySQL([16]byte(u), 8)
	if got := s.String(); got != one+":1-6:8-9" {
		t.Errorf("got %s", got)
	}
	if got := before.String(); got != one+":1-5" {
		t.Errorf("the copy is %s", got)
	}
	if !s.HasMySQL([16]byte(u), 8) || s.HasMySQL([16]byte(u), 7) {
		t.Error("it has the wrong transactions")
	}
	m := parse(t, "0-1-5")
	m.AddMaria(0, 2, 6)
	if !m.HasMaria(0, 6) || m.HasMaria(0, 7) || m.HasMaria(1, 1) || m.String() != "0-2-6" {
		t.Errorf("of MariaDB it is %s", m.String())
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ has, want, missing string }{
		{one + ":1-10", one + ":1-5", ""}, {one + ":1-5", one + ":1-10", one + ":6-10"},
		{one + ":3-4:7", one + ":1-10", one + ":1-2:5-6:8-10"},
		{"", one + ":1", one + ":1"}, {one + ":1-9", two + ":1-2", two + ":1-2"}, {"0-1-5", "0-2-5", ""},
		{"0-1-5", "0-1-6,1-1-1", "0-1-6,1-1-1"},
	} {
		has := parse(t, c.has)
		missing := has.Missing(parse(t, c.want))
		if got := missing.String(); got != c.missing || missing.Empty() != (c.missing == "") {
			t.Errorf("of %s %s lacks %q, want %q", c.want, c.has, got, c.missing)
		}
	}
}

func TestEndsAt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		has, at string
		want    bool
	}{
		{"0-1-5", "0-1-5", true}, {"0-1-5", "0-1-4", false}, {"0-1-5", "0-2-5", false}, {"0-1-5", "0-1-5,1-1-1", false},
		{"", "", true}, {"", "0-1-1", false},
		{"0-1-5,1-1-1", "0-1-3,1-1-1", true}, {"0-1-5,1-1-1", "0-1-6,1-1-1", false},
	} {
		has := parse(t, c.has)
		if got := has.EndsAt(parse(t, c.at)); got != c.want {
			t.Errorf("%q at %q: %v", c.has, c.at, got)
		}
	}
}

// TestEncode compares Encode with the format of COM_BINLOG_DUMP_GTID: numbers of eight bytes, exclusive ends.
func TestEncode(t *testing.T) {
	t.Parallel()
	s := parse(t, one+":1-5:9")
	const want = "0100000000000000" + "3e11fa4771ca11e19e33c80aa9429562" + "0200000000000000" + "0100000000000000" +
		"0600000000000000" + "0900000000000000" + "0a00000000000000"
	if got := hex.EncodeToString(s.Encode()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestEndsBefore compares the GTIDs of a position with those before the oldest file of a log.
func TestEndsBefore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		has, oldest string
		want        bool
	}{
		{"0-1-7", "0-1-7", true}, {"0-1-7", "0-1-8", false}, {"0-1-7", "0-1-6", false}, {"0-1-7", "", false},
		{"", "", true}, {"", "0-1-1", false},
		{"0-1-7,5-2-3", "0-1-7", true}, {"0-1-7,5-2-3", "0-1-7,5-2-4", false}, {"0-1-7,5-2-3", "", false},
	} {
		has, err := binlog.ParseGTIDSet(c.has)
		oldest, err2 := binlog.ParseGTIDSet(c.oldest)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if got := has.EndsBefore(oldest); got != c.want {
			t.Errorf("a reader that has %q before a log from %q on: %v", c.has, c.oldest, got)
		}
	}
}
