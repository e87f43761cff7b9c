package s3_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// lines returns the operation, object, key and payload of records. A text comes with the error in the metadata.
func lines(records []record.Record) (all []any) {
	for i := range records {
		key, _ := records[i].Key.Raw()
		line := []any{records[i].Operation.String(), records[i].Metadata.Get("s3.key"), string(key)}
		if m, ok := records[i].After.Structured(); ok {
			line = append(line, m)
		} else {
			raw, _ := records[i].After.Raw()
			line = append(line, string(raw), records[i].Metadata.Get("csv.error"))
		}
		all = append(all, line)
	}
	return all
}

func wantLines(t *testing.T, got []record.Record, want ...any) {
	t.Helper()
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Fatal(diff)
	}
}

// Reading resumes behind any line, and reads none twice.
func TestLinesOfObjects(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	at := f.now().Truncate(time.Second).Add(-time.Hour)
	f.put("a", "\xef\xbb\xbfid,name\r\n1,\"x\ny\"\r\n\n2\n3,z\n\n", at)
	f.put("b", "id,name\n", at)
	f.put("c", "id,id\n4,u\n", at)
	f.put("d", "", at)
	f.put("e", "name,id\nv,5", at)
	set := quick(f.addr(), "format", "csv", "csv.types", "id:int")
	r := source(t, set, nil)
	all := r.read(t, 6)
	const twice = `the header is not usable: "id" is the name of two columns`
	want := []any{
		[]any{"snapshot", "a", "2", map[string]any{"id": int64(1), "name": "x\ny"}},
		[]any{"snapshot", "a", "4", "2", "it has 1 of 2 columns"},
		[]any{"snapshot", "a", "5", map[string]any{"id": int64(3), "name": "z"}},
		[]any{"snapshot", "c", "1", "id,id", twice},
		[]any{"snapshot", "c", "2", "4,u", twice},
		[]any{"snapshot", "e", "2", map[string]any{"id": int64(5), "name": "v"}},
	}
	wantLines(t, all, want...)
	f.put("f", "id,name\n6,w\n7,w\n", f.now().Truncate(time.Second))
	all = append(all, r.read(t, 2)...)
	want = append(want, []any{"create", "f", "2", map[string]any{"id": int64(6), "name": "w"}},
		[]any{"create", "f", "3", map[string]any{"id": int64(7), "name": "w"}})
	wantLines(t, all, want...)
	for i := range all[:7] {
		wantLines(t, source(t, set, all[i].Position).read(t, 7-i), want[i+1:]...)
		for j := range all[:i] {
			if string(all[i].Position.Identity()) == string(all[j].Position.Identity()) {
				t.Errorf("records %d and %d have the same identity %s", j, i, all[i].Position.Identity())
			}
		}
	}
	raw := &s3.Source{}
	if err := raw.Configure(t.Context(), quick(f.addr())); err != nil {
		t.Fatal(err)
	}
	if err := raw.Open(t.Context(), all[0].Position); err == nil || !strings.Contains(err.Error(), "format is raw now") {
		t.Errorf("a position of a line is resumed by whole objects: %v", err)
	}
}

func TestPlainLinesOfObjects(t *testing.T) {
	t.Parallel()
	f := newFake(t, true)
	f.put("a", "x\r\n\n{}\nlast", f.now().Truncate(time.Second).Add(-time.Hour))
	set := quick(f.addr(), "format", "lines")
	r := source(t, set, nil)
	all := r.read(t, 3)
	wantLines(t, all, []any{"snapshot", "a", "1", "x\r", ""}, []any{"snapshot", "a", "3", "{}", ""},
		[]any{"snapshot", "a", "4", "last", ""})
	at := f.now().Truncate(time.Second)
	f.put("a", "-", at)
	f.put("a", "new\nlines\n", at.Add(time.Second))
	all = append(all, r.read(t, 2)...)
	wantLines(t, all[3:], []any{"create", "a", "1", "new", ""}, []any{"create", "a", "2", "lines", ""})
	wantLines(t, source(t, set, all[3].Position).read(t, 1), lines(all[4:])...)
}

// An object that is replaced while its lines are read is reported, and the new one is read whole.
func TestReplacedBetweenLines(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	f.put("a", "1\n2\n3\n", f.now().Truncate(time.Second).Add(-time.Hour))
	set := quick(f.addr(), "format", "lines")
	first := source(t, set, nil).read(t, 3)
	f.put("a", "4\n5\n", f.now().Truncate(time.Second))
	r := source(t, set, first[0].Position)
	wantLines(t, r.read(t, 2), []any{"create", "a", "1", "4", ""}, []any{"create", "a", "2", "5", ""})
	skipped := fmt.Sprint(r.source.(interface{ Progress() progress.Report }).Progress().Skipped)
	if !strings.Contains(skipped, "lines of a from 2 on") || !strings.Contains(skipped, "was removed or replaced") {
		t.Errorf("skipped are %s", skipped)
	}
}

func TestBadSettingsOfLines(t *testing.T) {
	for setting, value := range map[string]string{"format": "json", "csv.delimiter": "none", "csv.types": "a"} {
		set := settings("127.0.0.1:1", "format", "csv", setting, value)
		if err := (&s3.Source{}).Configure(t.Context(), set); err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
