package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// stored holds the objects received by a store, by the directories of their keys.
type stored map[string][]string

func (s *stored) serve(t *testing.T, refuses string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if refuses != "" && strings.Contains(string(body), refuses) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<Error><Code>EntityTooLarge</Code></Error>")
			return
		}
		dir := path.Dir(strings.TrimPrefix(r.URL.Path, "/bkt/"))
		(*s)[dir] = append((*s)[dir], string(body))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// in returns a record of a collection, with the given hour.
func in(collection string, hour int, payload string) record.Record {
	r := made(payload, payload)
	r.Metadata.Set(record.KeyCollection, collection)
	at := time.Date(2026, 2, 28, hour, 59, 0, 0, time.UTC)
	r.Metadata.Set(record.KeyCreatedAt, fmt.Sprint(at.UnixNano()))
	return r
}

var raw = []string{
	"format", "lines", "sdk.record.format", "template", "sdk.record.format.options", "{{ printf `%s` .Payload.After }}",
}

func byTemplate(t *testing.T, addr, prefix string, more ...string) sdk.Destination {
	t.Helper()
	return destination(t, settings(addr, append(more, append(raw, "prefix", prefix)...)...))
}

const byCollectionAndHour = `data/{{ .Metadata.GetCollection }}/{{ .Metadata.GetCreatedAt.UTC.Format "2006-01-02/15" }}`

func TestAPrefixForEachCollectionAndHour(t *testing.T) {
	t.Parallel()
	got := stored{}
	d := byTemplate(t, got.serve(t, ""), byCollectionAndHour)
	write(t, d, in("a", 7, "1"), in("b", 7, "2"), in("a", 8, "3"), in("a", 7, "4"), in("b", 7, "5"))
	want := stored{"data/a/2026-02-28/07": {"1\n4\n"}, "data/b/2026-02-28/07": {"2\n5\n"},
		"data/a/2026-02-28/08": {"3\n"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestObjectsBeginWithTheHeader writes lines of CSV.
func TestObjectsBeginWithTheHeader(t *testing.T) {
	t.Parallel()
	got := stored{}
	d := destination(t, settings(got.serve(t, ""), "format", "lines", "sdk.record.format", "csv",
		"sdk.record.format.options", "n,delimiter=;", "prefix", "data/{{ .Metadata.GetCollection }}"))
	record := func(collection string, v any) record.Record {
		r := in(collection, 7, "")
		r.After = record.Structured(map[string]any{"n": v})
		return r
	}
	write(t, d, record("a", "1;2"), record("b", int64(3)), record("a", nil))
	write(t, d, record("a", 4.5))
	want := stored{"data/a": {"n\n\"1;2\"\n\"\"\n", "n\n4.5\n"}, "data/b": {"n\n3\n"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRefusedPrefixes refuses a record whose prefix or text cannot be made. The records before it are written, and none
// after it.
func TestRefusedPrefixes(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]record.Record{
		"..": in("..", 7, "x"), "climbing": in("../../../x", 7, "x"), "empty": in("a//b", 7, "x"),
		"control": in("a\nb", 7, "x"),
		"long":    in(strings.Repeat("a/", 500), 7, "x"), "no text": in("\xff", 7, "x"), "no time": made("x", "x"),
		"too large": in("a", 7, "huge"),
		"no line": {Position: record.Position("x"), Metadata: in("b", 7, "").Metadata, After: record.Structured(
			map[string]any{"x": func() {}})},
	} {
		got := stored{}
		prefix := byCollectionAndHour
		d := byTemplate(t, got.serve(t, "huge"), prefix, "object.maxBytes", "1")
		if name == "no line" {
			d = destination(t, settings(got.serve(t, ""), "format", "json", "prefix", prefix))
		}
		n, err := d.Write(
			t.Context(),
			[]record.Record{in("a", 7, "1"), in("b", 7, "2"), in("a", 7, "3"), bad, in("b", 7, "4"), in("d", 7, "5")},
		)
		var lost interface{ Lost() bool }
		if n != 3 || err == nil || errors.As(err, &lost) {
			t.Errorf("%s: wrote %d, %v", name, n, err)
		}
		all := fmt.Sprint(got)
		for i, payload := range []string{"1", "2", "3", "4", "5"} {
			has := strings.Contains(all, payload+"\n") || strings.Contains(all, `"Payload":"`+payload+`"`)
			if want := i < 3; has != want {
				t.Errorf("%s: the store has record %s: %t, want %t", name, payload, has, want)
			}
		}
	}
}

func TestTemplatesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{
		{"prefix", "{{ nothing }}"}, {"key", "{{ nothing }}"}, {"key", "a/../b"}, {"key", "/a"},
		{"key", "a", "prefix", "b"}, {"key", "{{ .Operation }}.jsonl", "compression", "gzip"},
		{"positionsPrefix", "{{ .Operation }}"},
	} {
		err := (&s3.Destination{}).Configure(t.Context(), settings("127.0.0.1:1", append(more, "format", "json")...))
		var setting sdk.SettingError
		if !errors.As(err, &setting) {
			t.Errorf("%v: %v", more, err)
		}
	}
	for _, name := range []string{"prefix", "prefixes"} {
		if err := (&s3.Source{}).Configure(t.Context(), settings("127.0.0.1:1", name, "x/{{ .Operation }}")); err ==
			nil ||
			!strings.Contains(err.Error(), "template") {
			t.Errorf("%s of a source: %v", name, err)
		}
	}
}

// TestTimesInPrefixes has objects by the hour of records in a time zone, and a name for an empty value.
func TestTimesInPrefixes(t *testing.T) {
	t.Parallel()
	got := stored{}
	d := byTemplate(t, got.serve(t, ""), `data/{{ .Metadata.GetCollection }}/{{ strftime "%Y-%m-%d/%H" }}`, "timezone",
		"Europe/Vienna", "emptyValue", "none")
	write(t, d, in("a", 22, "1"), in("a", 23, "2"), in("", 23, "3"))
	want := stored{"data/a/2026-02-28/23": {"1\n"}, "data/a/2026-03-01/00": {"2\n"}, "data/none/2026-03-01/00": {"3\n"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Records with too many prefixes are refused.
func TestPrefixesPerHour(t *testing.T) {
	t.Parallel()
	got := stored{}
	d := byTemplate(t, got.serve(t, ""), "{{ .Metadata.GetCollection }}", "prefixesPerHour", "2")
	records := []record.Record{in("a", 1, "1"), in("b", 1, "2"), in("a", 1, "3"), in("c", 1, "4"), in("b", 1, "5")}
	n, err := d.Write(t.Context(), records)
	if n != 3 || err == nil || errors.As(err, new(interface{ Lost() bool })) || !strings.Contains(err.Error(),
		"prefixesPerHour") {
		t.Errorf("got %d, %v", n, err)
	}
	write(t, d, records[4])
	if want := (stored{"a": {"1\n3\n"}, "b": {"2\n", "5\n"}}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestZstdObjects(t *testing.T) {
	t.Parallel()
	got := stored{}
	write(t, byTemplate(t, got.serve(t, ""), "p", "compression", "zstd"), in("a", 1, "1"), in("a", 1, "2"))
	if len(got["p"]) != 1 {
		t.Fatalf("got %v", got)
	}
	r, err := zstd.NewReader(strings.NewReader(got["p"][0]), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "1\n2\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestBadTemplateSettings(t *testing.T) {
	for setting, value := range map[string]string{
		"timezone": "Mars", "emptyValue": "a/b", "prefix": `{{ strftime "%Q" }}`,
	} {
		err := s3.Connector().NewDestination().Configure(t.Context(), settings("h", "format", "json", setting, value))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", setting)) {
			t.Errorf("%s: got %v", setting, err)
		}
	}
}
