package file_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

var packings = map[string]string{"gzip": ".gz", "zstd": ".zst"}

// contentOf returns the decompressed content of a file.
func contentOf(t *testing.T, path string) string {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader
	if strings.HasSuffix(path, ".zst") {
		r, err = zstd.NewReader(bytes.NewReader(packed), 1<<30)
	} else {
		r, err = gzip.NewReader(bytes.NewReader(packed))
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// reopened closes a destination and opens one with the same settings.
func reopened(t *testing.T, d sdk.Destination, path string, settings ...string) sdk.Destination {
	t.Helper()
	if err := d.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return destination(t, path, settings...)
}

// TestTornMember cuts a file off at every length, as a kill does, and continues it.
func TestTornMember(t *testing.T) {
	for compression, ext := range packings {
		t.Run(compression, func(t *testing.T) {
			path := newPath(t) + ext
			settings := []string{"compression", compression, "fsync", "false"}
			d := destination(t, path, settings...)
			records := someRecords(1, 4, 50)
			var sizes []int64 // after each write
			for i := range 3 {
				mustWrite(t, d, records[i:i+1])
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				sizes = append(sizes, info.Size())
			}
			_ = d.Teardown(t.Context())
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for n := range len(whole) + 1 {
				near := slices.ContainsFunc(sizes, func(size int64) bool { return max(size-int64(n), int64(n)-size) < 30 })
				if n%7 > 0 && n > 30 && !near {
					continue
				}
				if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
					t.Fatal(err)
				}
				kept := 0
				for kept < 3 && sizes[kept] <= int64(n) {
					kept++
				}
				d := destination(t, path, settings...)
				mustWrite(t, d, records[3:])
				want := encode(t, append(append([]record.Record{}, records[:kept]...), records[3]))
				if got := contentOf(t, path); got != want {
					t.Fatalf("cut off at %d of %v: got %q, want %q", n, sizes, got, want)
				}
				if err := d.Teardown(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A power cut may leave anything behind the last synced member.
func TestGarbageBehindMembers(t *testing.T) {
	for compression, ext := range packings {
		path := newPath(t) + ext
		settings := []string{"compression", compression}
		records := someRecords(1, 3, 100_000)
		d := destination(t, path, settings...)
		mustWrite(t, d, records[:1])
		for _, garbage := range []string{
			strings.Repeat("\x00", 200_000), "x", "\x1f\x8b\b\x04\x00\x00\x00\x00\x00\xff\f\x00Cd\b\x00" +
				"\x20\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("y", 8),
		} {
			write(t, path, garbage)
			d = reopened(t, d, path, settings...)
		}
		mustWrite(t, d, records[1:])
		if contentOf(t, path) != encode(t, records) {
			t.Errorf("%s: the content differs", compression)
		}
	}
}

// Complete data of another program is continued, other data is an error.
func TestForeignData(t *testing.T) {
	for compression, ext := range packings {
		path := newPath(t) + ext
		pack(t, path, "foreign\n")
		records := someRecords(1, 1, 10)
		d := destination(t, path, "compression", compression)
		mustWrite(t, d, records)
		if got, want := contentOf(t, path), "foreign\n"+encode(t, records); got != want {
			t.Errorf("%s: got %q, want %q", compression, got, want)
		}
		for _, text := range []string{"plain text\n", "\x1f\x8b\b\x00\x00\x00\x00\x00\x00\xff\x01", "(\xb5/\xfd\x04"} {
			path := newPath(t) + ext
			write(t, path, text)
			d := file.Connector(zstd.Codec{}).NewDestination()
			if err := d.Configure(t.Context(), settingsOf(path, []string{"compression", compression})); err != nil {
				t.Fatal(err)
			}
			if err := d.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "rename or remove it") {
				t.Errorf("%s: %q: got %v", compression, text, err)
			}
			_ = d.Teardown(t.Context())
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%s: it changed %q to %q, %v", compression, text, got, err)
			}
		}
	}
}

// TestCompressedTemplates rotates compressed files of a template, with few open ones, and reads them with a source.
func TestCompressedTemplates(t *testing.T) {
	for compression, ext := range packings {
		runVirtual(t, compression, func(t *testing.T) {
			dir := t.TempDir()
			records := recordsIn(strings.Split(strings.Repeat("a b c ", 100), " ")[:300]...)
			path := dir + "/{{ .Metadata.GetCollection }}.jsonl" + ext
			settings := []string{"compression", compression, "fsync", "false", "openFiles", "2",
				"rotate.size", "1000", "rotate.keep", "1000"}
			d := destination(t, path, settings...)
			for i := 0; i < len(records); i += 10 {
				mustWrite(t, d, records[i:i+10])
				if i%50 == 0 {
					d = reopened(t, d, path, settings...)
				}
			}
			if err := d.Teardown(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"a", "b", "c"} {
				var want []record.Record
				for j := i; j < len(records); j += 3 {
					want = append(want, records[j])
				}
				names, _ := filepath.Glob(filepath.Join(dir, name+"-*.jsonl"+ext))
				var got strings.Builder
				for _, path := range append(names, filepath.Join(dir, name+".jsonl"+ext)) {
					got.WriteString(contentOf(t, path))
				}
				if got.String() != encode(t, want) || len(names) < 3 {
					t.Errorf("%s: got other content in %d rotated files", name, len(names))
				}
			}
		})
	}
}

// A source that follows a compressed file reads its rotated files in order.
func TestFollowsCompressedDestination(t *testing.T) {
	for _, pattern := range []string{"out.jsonl.gz", "*.gz"} {
		runVirtual(t, pattern, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "out.jsonl.gz")
			records := someRecords(1, 30, 100)
			d := destination(t, path, "compression", "gzip", "rotate.size", "700")
			mustWrite(t, d, records[:1])
			first := open(t, filepath.Join(dir, pattern), nil).read(1)
			for i := range records[1:] {
				mustWrite(t, d, records[i+1:i+2])
			}
			names, _ := filepath.Glob(filepath.Join(dir, "out-*.jsonl.gz"))
			if len(names) < 3 {
				t.Fatalf("there are only %d rotated files", len(names))
			}
			for i, name := range append(names, path) {
				age(t, name, time.Hour-time.Duration(i)*time.Minute)
			}
			got := append(first, open(t, filepath.Join(dir, pattern), first[0].Position).read(29)...)
			if text := strings.Join(texts(got), "\n") + "\n"; text != encode(t, records) {
				t.Error("got other lines")
			}
		})
	}
}

func TestCompressionSettings(t *testing.T) {
	for _, c := range []struct {
		path, setting string
		more          []string
	}{
		{"out.jsonl", "path", []string{"compression", "gzip"}},
		{"out/{{ .Operation }}.gz", "path", []string{"compression", "zstd"}},
		{"out.gz", "rotate.compression", []string{"compression", "gzip", "rotate.size", "9", "rotate.compression", "gzip"}},
		{"out/{{ strftime \"%Q\" }}", "path", nil},
		{"out/{{ .Operation }}", "timezone", []string{"timezone", "Mars"}},
		{"out/{{ .Operation }}", "emptyValue", []string{"emptyValue", ".."}},
		{"out/{{ .Operation }}", "emptyValue", []string{"emptyValue", "a/b"}},
	} {
		err := file.Connector(zstd.Codec{}).NewDestination().Configure(t.Context(), settingsOf(c.path, c.more))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", c.setting)) {
			t.Errorf("%s %v: got %v", c.path, c.more, err)
		}
	}
}
