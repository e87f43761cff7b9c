package spoollog_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// The inspection commands show the content of a log that is in use, including damage.
func TestInspectAndWalk(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	r, err := l.Reader("reader")
	if err != nil {
		t.Fatal(err)
	}
	add(t, l, 0, 205)
	if err := r.Acknowledge(30); err != nil {
		t.Fatal(err)
	}
	r.Save()
	second := files(t, dir)[1]
	text, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	text[bytes.LastIndex(text[:len(text)-1], []byte("\xf5SPL"))+10]++
	if err := os.WriteFile(second, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := spoollog.Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, last := s.Segments[0], s.Segments[len(s.Segments)-1]
	if s.ID != l.ID() || last.End != 205 || s.Readers[0].Next != 30 || !last.Open || first.Open ||
		first.End <= first.First {
		t.Errorf("got %+v", s)
	}
	if len(s.Readers) != 1 || s.Readers[0].Name != "reader" || s.Readers[0].Behind != 175 {
		t.Errorf("got the readers %+v", s.Readers)
	}
	good, lost, places := uint64(0), uint64(0), 0
	err = spoollog.Walk(dir, func(uint64, *record.Record) error {
		good++
		return nil
	}, func(d spoollog.Damage) { lost += d.Records; places++ })
	if err != nil || places != 1 || lost != 10 || good != last.End-first.First-lost {
		t.Errorf("%d good, %d lost in %d places: %v", good, lost, places, err)
	}
}

func TestTruncate(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	add(t, l, 0, 100)
	_, end := l.Bounds()
	l.Close()
	if _, _, err := spoollog.Truncate(t.TempDir(), time.Time{}); err == nil {
		t.Error("a directory that is no spool was truncated")
	}
	if n, _, err := spoollog.Truncate(dir, time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("removed %d records that are not old: %v", n, err)
	}
	if n, bytes, err := spoollog.Truncate(dir, time.Time{}); n != 100 || bytes < 1000 || err != nil {
		t.Errorf("removed %d records and %d bytes: %v", n, bytes, err)
	}
	l = open(t, dir)
	add(t, l, 100, 110)
	want(t, l, end, "100-109")
}
