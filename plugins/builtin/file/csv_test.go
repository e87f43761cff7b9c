package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

func csvDestination(t *testing.T, path string, settings ...string) sdk.Destination {
	t.Helper()
	d := sdk.Standard(file.Connector(zstd.Codec{})).NewDestination()
	settings = append(settings, "sdk.record.format", "csv", "sdk.record.format.options", "n,name")
	if err := d.Configure(t.Context(), settingsOf(path, settings)); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func numbered(n int64) []record.Record {
	return []record.Record{{After: record.Structured(map[string]any{"n": n, "name": "x,y"})}}
}

// Each file begins with one header, after a restart, a rotation, a removal and a failed write, too.
func TestFilesBeginWithTheHeader(t *testing.T) {
	for packing, end := range map[string]string{"none": "", "gzip": ".gz", "zstd": ".zst"} {
		path := newPath(t) + end
		content := func() string {
			if packing == "none" {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			return contentOf(t, path)
		}
		want := "n,name\n"
		for n := range int64(3) {
			d := csvDestination(t, path, "compression", packing)
			mustWrite(t, d, numbered(n))
			mustWrite(t, d, numbered(n))
			want += string(rune('0'+n)) + ",\"x,y\"\n" + string(rune('0'+n)) + ",\"x,y\"\n"
			if got := content(); got != want {
				t.Fatalf("%s: the file has %q, want %q", packing, got, want)
			}
			if err := d.Teardown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		d := csvDestination(t, path, "compression", packing)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, d, numbered(7))
		if got := content(); got != "n,name\n7,\"x,y\"\n" {
			t.Errorf("%s: the new file has %q", packing, got)
		}
		if err := d.Teardown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	path := newPath(t)
	d := csvDestination(t, path, "rotate.size", "30")
	for n := range int64(9) {
		mustWrite(t, d, numbered(n))
	}
	if err := d.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, lines := names(t, path), 0
	for _, name := range all {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		var rest string
		if rest = string(text[min(len(text), len("n,name\n")):]); string(text[:len(text)-len(rest)]) != "n,name\n" {
			t.Errorf("%s begins with %q", name, text)
		}
		for range len(rest) / len("0,\"x,y\"\n") {
			lines++
		}
	}
	if len(all) < 3 || lines != 9 {
		t.Errorf("%d files have %d lines", len(all), lines)
	}
}

// objects returns the payloads of records. Those of text are the errors.
func objects(records []record.Record) (all []any) {
	for i := range records {
		if m, ok := records[i].After.Structured(); ok {
			all = append(all, m)
			continue
		}
		raw, _ := records[i].After.Raw()
		all = append(all, string(raw)+": "+records[i].Metadata.Get("csv.error"))
	}
	return all
}

func wantObjects(t *testing.T, got []record.Record, want ...any) {
	t.Helper()
	if diff := cmp.Diff(want, objects(got)); diff != "" {
		t.Fatal(diff)
	}
}

func row(id int64, name string) map[string]any { return map[string]any{"id": id, "name": name} }

var csvSettings = []string{"format", "csv", "csv.types", "id:int"}

// A line that does not fit is neither lost nor guessed.
func TestSourceOfCSV(t *testing.T) {
	path := newPath(t)
	write(t, path, "\xef\xbb\xbfid,name\r\n1,\"Lamp, round\"\r\n2\n3,Chair\nx,Table\n\"4,\n5,\"\"\"a\"\"\"\n")
	s := open(t, path, nil, csvSettings...)
	wantObjects(t, s.read(6), row(1, "Lamp, round"), "2: it has 1 of 2 columns", row(3, "Chair"),
		`x,Table: "id": cannot read "x" as an integer`, `"4,: column 1: the closing quote is missing`, row(5, `"a"`))
}

// The header is that of the file whose lines are read: after a restart at any line, a rotation, and a truncation.
func TestHeaderIsRemembered(t *testing.T) {
	for _, end := range []string{"", ".gz"} {
		path := newPath(t) + end
		text := "id,name\n1,a\n2,b\n3,c\n"
		if end == "" {
			write(t, path, text)
		} else {
			pack(t, path, text)
		}
		whole := open(t, path, nil, csvSettings...).read(3)
		wantObjects(t, whole, row(1, "a"), row(2, "b"), row(3, "c"))
		for i := range 2 {
			s := open(t, path, whole[i].Position, csvSettings...)
			wantObjects(t, s.read(2-i), objects(whole[i+1:])...)
		}
	}
	path := newPath(t)
	write(t, path, "id,name\n1,a\n")
	s := open(t, path, nil, csvSettings...)
	first := s.read(1)
	wantObjects(t, first, row(1, "a"))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, path+".1", "2,b\n")
	write(t, path, "name,id\nc,3\n")
	wantObjects(t, s.read(2), row(2, "b"), row(3, "c"))
	again := open(t, path, first[0].Position, csvSettings...)
	wantObjects(t, again.read(2), row(2, "b"), row(3, "c"))
	if err := os.WriteFile(path, []byte("name,id\nd,4\n"), 0o600); err != nil { // it has the size that was read
		t.Fatal(err)
	}
	wantObjects(t, again.read(1), row(4, "d"))
}

// Reading that begins at the end of a file, or behind a hole, takes no line for a header, and no header for a line.
func TestHeaderBeforeTheBeginning(t *testing.T) {
	path := newPath(t)
	write(t, path, "id,name\n1,a\n")
	s := open(t, path, nil, append(csvSettings, "start", "end")...)
	write(t, path, "2,b\n3,c\n")
	wantObjects(t, s.read(2), row(2, "b"), row(3, "c"))
	path = newPath(t)
	write(t, path, "n\n")
	s = open(t, path, nil, "format", "csv", "start", "end")
	write(t, path, "1\n2\n")
	wantObjects(t, s.read(2), map[string]any{"n": "1"}, map[string]any{"n": "2"})
	path = newPath(t)
	write(t, path, strings.Repeat("\x00", 100)+"id,name\n1,a\n2,b\n")
	all := open(t, path, nil, csvSettings...).read(2)
	wantObjects(t, all, row(1, "a"), row(2, "b"))
	wantObjects(t, open(t, path, all[0].Position, csvSettings...).read(1), row(2, "b"))
}

// A file whose header is too long does not get that of the file before it.
func TestHeaderThatIsTooLong(t *testing.T) {
	path := newPath(t)
	write(t, path, "id,name\n1,a\n")
	s := open(t, path, nil, csvSettings...)
	wantObjects(t, s.read(1), row(1, "a"))
	rename(t, path, path+".1")
	write(t, path, strings.Repeat("x", 17<<20)+"\n2,b\n")
	wantObjects(t, s.read(1), "2,b: the header is longer than 1048576 bytes")
}

func TestColumnsOfSettings(t *testing.T) {
	path := newPath(t)
	write(t, path, "1;a;x\n2;b;y\n")
	s := open(t, path, nil, "format", "csv", "csv.columns", "id,name,", "csv.types", "id:int", "csv.delimiter", ";")
	wantObjects(t, s.read(2), row(1, "a"), row(2, "b"))
	if s.Source.(sdk.LineSource).NoLines() == "" {
		t.Error("lines pass without being parsed")
	}
}

// Each file of a pattern has its own header.
func TestEachFileHasItsHeader(t *testing.T) {
	path := newPath(t)
	dir := filepath.Dir(path)
	write(t, filepath.Join(dir, "a.csv"), "id,name\n1,a\n")
	write(t, filepath.Join(dir, "b.csv"), "name,id\nb,2\n")
	write(t, filepath.Join(dir, "c.csv"), "id,id\n3,c\n")
	s := open(t, filepath.Join(dir, "*.csv"), nil, csvSettings...)
	want := map[string]bool{"map[id:1 name:a]": true, "map[id:2 name:b]": true,
		"id,id: the header is not usable: \"id\" is the name of two columns": true,
		"3,c: the header is not usable: \"id\" is the name of two columns":   true}
	for _, v := range objects(s.read(4)) {
		if text := fmt.Sprint(v); !want[text] {
			t.Errorf("there is %s", text)
		} else {
			delete(want, text)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}
}

func TestRecordsOfSeveralLines(t *testing.T) {
	path := newPath(t)
	write(t, path, "id,name\n1,\"a\nb\"\n2,c\n")
	s := open(t, path, nil, append(csvSettings, "multiline.start", "^[0-9]+,", "multiline.timeout", "1ms")...)
	wantObjects(t, s.read(2), row(1, "a\nb"), row(2, "c"))
}
