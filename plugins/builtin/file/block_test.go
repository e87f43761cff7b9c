package file_test

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// randomLines returns a text of about n bytes, with lines that need a closer look if odd.
func randomLines(r *rand.Rand, n int, odd bool) []byte {
	var text []byte
	for len(text) < n {
		switch r.IntN(200) {
		case 0:
			text = append(text, bytes.Repeat([]byte("\n"), r.IntN(5000))...)
		case 1:
			text = append(text, bytes.Repeat([]byte("long "), r.IntN(120_000))...)
		case 2:
			text = append(text, "ends with CR\r"...)
		case 3:
			if odd {
				text = append(text, bytes.Repeat([]byte{0}, 1+r.IntN(2)*(64<<10))...)
			}
		case 4:
			text = append(text, "\xef\xbb\xbfa byte order mark, \xff, ü"...)
		default:
			text = append(text, strings.Repeat("line ", r.IntN(40))...)
		}
		text = append(text, '\n')
	}
	return text
}

// reading returns a function that reads with Read, or with ReadLines and sometimes with Read. see is called for lines.
func (s *source) reading(r *rand.Rand, see func(record.Lines)) func(context.Context) ([]record.Record, error) {
	return func(ctx context.Context) ([]record.Record, error) {
		if see == nil || r.IntN(10) == 0 {
			return s.Read(ctx)
		}
		lines, records, err := s.Source.(sdk.LineSource).ReadLines(ctx)
		if lines != nil {
			see(lines)
			return record.NewLines(lines).Records()
		}
		return records, err
	}
}

// until reads until n lines "end" were read.
func until(t *testing.T, n int, read func(context.Context) ([]record.Record, error)) (all []record.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for n > 0 {
		records, err := read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts(records) {
			if text == "end" {
				n--
			}
		}
		all = append(all, records...)
	}
	return all
}

func wantSameRecords(t *testing.T, got, want []record.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d records, want %d", len(got), len(want))
	}
	for i := range want {
		if !got[i].Equal(want[i]) {
			t.Fatalf("record %d is %+.300v, want %+.300v", i, got[i], want[i])
		}
	}
}

// Lines have the same records, with the same positions, as Read returns, also while the file grows.
func TestLinesAreRecords(t *testing.T) {
	blocks := 0
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		path := newPath(t)
		write(t, path, string(randomLines(r, 10_000+r.IntN(300_000), seed > 1))+"end\n")
		one, other := open(t, path, nil), open(t, path, nil)
		for range 4 {
			want := until(t, 1, one.reading(r, nil))
			got := until(t, 1, other.reading(r, func(l record.Lines) {
				blocks++
				checkLines(t, r, l)
			}))
			wantSameRecords(t, got, want)
			from := want[r.IntN(len(want))].Position
			wantSameRecords(t, until(t, 1, open(t, path, from).reading(r, func(record.Lines) {})),
				until(t, 1, open(t, path, from).reading(r, nil)))
			write(t, path, string(randomLines(r, r.IntN(100_000), seed > 0))+"end\n")
		}
	}
	if blocks < 20 {
		t.Errorf("%d blocks", blocks)
	}
}

// checkLines compares a block with its records.
func checkLines(t *testing.T, r *rand.Rand, l record.Lines) {
	t.Helper()
	records, content := l.Records(), 0
	for i := range records {
		content += records[i].Content()
	}
	i := r.IntN(len(records))
	if l.Len() != len(records) || l.Content() != content || !bytes.Equal(l.Position(i), records[i].Position) {
		t.Errorf("%d lines, content %d, position %q of %d, but records: %d, %d, %q", l.Len(), l.Content(),
			l.Position(i), i, len(records), content, records[i].Position)
	}
	if text := strings.Join(texts(records), "\n") + "\n"; text != string(l.Text()) {
		t.Error("the text differs from the records")
	}
	if !l.Metadata().Equal(records[i].Metadata) {
		t.Errorf("metadata %v of lines, %v of records", l.Metadata(), records[i].Metadata)
	}
}

// Of several files, the lines of each have the same records, and another source resumes after them.
func TestLinesOfSeveralFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	dir, blocks := t.TempDir(), 0
	files := []string{"a.log", "b.log", "c.log"}
	want := map[string]string{}
	for _, name := range files {
		path := filepath.Join(dir, name)
		want[path] = string(randomLines(r, 300_000, false)) + "end\n"
		write(t, path, want[path])
	}
	read := open(t, dir, nil).reading(r, func(l record.Lines) { blocks++; checkLines(t, r, l) })
	all := until(t, len(files), read)
	at := len(all) / 2
	again := until(t, len(files), open(t, dir, all[at].Position).reading(r, func(record.Lines) {}))
	for path, text := range want {
		joined := func(all []record.Record) (got string) {
			for _, r := range all {
				if after, _ := r.After.Raw(); r.Metadata.Get("file.path") == path {
					got += string(after) + "\n"
				}
			}
			return got
		}
		if got := joined(all); got != text {
			t.Errorf("%s: other lines", path)
		}
		if got := joined(all[:at+1]) + joined(again); !strings.HasSuffix(got, "end\n") || len(got) < len(text) {
			t.Errorf("%s: other lines after resuming", path)
		}
	}
	if blocks < 3 {
		t.Errorf("%d blocks", blocks)
	}
}

// The memory of lines is not used again before Free.
func TestMemoryOfLines(t *testing.T) {
	path := newPath(t)
	want := string(randomLines(rand.New(rand.NewPCG(1, 2)), 6<<20, false)) + "end\n"
	write(t, path, want)
	s := open(t, path, nil)
	var got []byte
	type read struct {
		record.Lines
		text string
	}
	var waiting []read
	for len(got) < len(want) {
		lines, records, err := s.Source.(sdk.LineSource).ReadLines(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts(records) {
			got = append(append(got, text...), '\n')
		}
		if lines == nil {
			continue
		}
		got = append(got, lines.Text()...)
		waiting = append(waiting, read{lines, string(lines.Text())})
		if len(waiting) == 4 {
			if string(waiting[0].Text()) != waiting[0].text {
				t.Fatal("lines changed before Free")
			}
			waiting[0].Free()
			waiting = waiting[1:]
		}
	}
	if string(got) != want {
		t.Error("other lines")
	}
}

// A byte order mark is not part of the first line.
func TestByteOrderMarkBeforeLines(t *testing.T) {
	path := newPath(t)
	write(t, path, "\xef\xbb\xbf"+strings.Repeat("line\n", 2000)+"end\n")
	s := open(t, path, nil)
	first := until(t, 1, func(ctx context.Context) ([]record.Record, error) {
		lines, records, err := s.Source.(sdk.LineSource).ReadLines(ctx)
		if lines != nil {
			return lines.Records(), err
		}
		return records, err
	})[0]
	if text := texts([]record.Record{first}); text[0] != "line" {
		t.Errorf("the first line is %q", text)
	}
}

// Groups of lines are no lines.
func TestNoLinesOfGroups(t *testing.T) {
	s := open(t, newPath(t), nil, "multiline.start", "^x")
	if why := s.Source.(sdk.LineSource).NoLines(); why == "" {
		t.Error("groups can be lines")
	}
	s = open(t, newPath(t), nil)
	if why := s.Source.(sdk.LineSource).NoLines(); why != "" {
		t.Error(why)
	}
}

// lineText is a text for a destination.
type lineText struct {
	record.Lines
	text string
}

func (l lineText) Metadata() record.Metadata { return nil }
func (l lineText) Content() int              { return 0 }

func (l lineText) Text() []byte { return []byte(l.text) }
func (l lineText) Len() int     { return strings.Count(l.text, "\n") }

func recordsOf(text string) (records []record.Record) {
	for line := range strings.Lines(text) {
		records = append(records, record.Record{After: record.Raw([]byte(strings.TrimSuffix(line, "\n")))})
	}
	return records
}

// payloads returns a destination that writes payloads as lines.
func payloads(t *testing.T, path string, settings ...string) sdk.Destination {
	t.Helper()
	d := sdk.Standard(file.Connector(zstd.Codec{})).NewDestination()
	settings = append(settings, "sdk.record.format", "template", "sdk.record.format.options",
		`{{ printf "%s" .Payload.After }}`)
	if err := d.Configure(t.Context(), settingsOf(path, settings)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.Background()) })
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// contents returns the contents of the files in the directory of path, in the order written.
func contents(t *testing.T, path string) (all []string) {
	t.Helper()
	for _, name := range append(slices.DeleteFunc(names(t, path), func(name string) bool {
		return name == filepath.Base(path)
	}), filepath.Base(path)) {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return all
}

// WriteLines leaves the same files as Write, also when it ends a torn line, rotates files, finds its file removed, and
// fails.
func TestWriteLinesLikeRecords(t *testing.T) {
	if !alone(t) {
		return
	}
	for name, settings := range map[string][]string{"one file": nil, "rotated": {"rotate.size", "3000"}} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 3))
			one, other := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out")
			write(t, one, "torn")
			write(t, other, "torn")
			records, lines := payloads(t, one, settings...), payloads(t, other, settings...)
			for i := range 40 {
				text := string(randomLines(r, r.IntN(8000), true))
				if i == 0 {
					text += strings.Repeat("x", 2<<20) + "\n" + text
				}
				limit := i == 5 && settings == nil // the log of the test is smaller then
				size := uint64(len(text) / 2)
				if info, err := os.Stat(one); err == nil {
					size += uint64(info.Size())
				}
				written := func(attempt func() (int, error)) (int, error) {
					if limit {
						defer limitFileSize(t, size)()
					}
					return attempt()
				}
				all := recordsOf(text)
				n, err := written(func() (int, error) { return records.Write(t.Context(), all) })
				m, merr := written(func() (int, error) { return writeLines(t, lines, text) })
				if n != m || (err == nil) != (merr == nil) || limit && err == nil {
					t.Fatalf("wrote %d records, %v; %d lines, %v", n, err, m, merr)
				}
				if err != nil {
					wantUnavailable(t, merr)
				}
				if i%10 == 7 {
					for _, path := range []string{one, other} {
						if err := os.Remove(path); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if got, want := contents(t, other), contents(t, one); !slices.Equal(got, want) {
				t.Errorf("%d files of lines, %d of records, with other contents", len(got), len(want))
			}
		})
	}
}

// writeLines writes text like the host does, and returns the number of settled lines.
func writeLines(t *testing.T, d sdk.Destination, text string) (n int, err error) {
	err = d.(interface {
		WriteLinesAsync(context.Context, *record.Batch, func(int, error)) error
	}).WriteLinesAsync(t.Context(), record.NewLines(lineText{text: text}), func(k int, err error) {
		if n += k; err != nil {
			t.Errorf("refused a line: %v", err)
		}
	})
	return n, err
}

// Only a template of the payload alone, without a limit, takes lines, and no template is in the path.
func TestNoLinesForDestination(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		want     string
	}{
		"payload":    {nil, ""},
		"short":      {map[string]string{"sdk.record.format.options": "{{ .Payload.After }}"}, ""},
		"spaces":     {map[string]string{"sdk.record.format.options": "{{- .Payload.After -}}"}, ""},
		"more text":  {map[string]string{"sdk.record.format.options": "> {{ .Payload.After }}"}, "record.format"},
		"before":     {map[string]string{"sdk.record.format.options": "{{ .Payload.Before }}"}, "record.format"},
		"a field":    {map[string]string{"sdk.record.format.options": "{{ .Payload.After.x }}"}, "record.format"},
		"a function": {map[string]string{"sdk.record.format.options": "{{ .Payload.After | toString }}"}, "record.format"},
		"quoted":     {map[string]string{"sdk.record.format.options": `{{ printf "%q" .Payload.After }}`}, "record.format"},
		"JSON":       {map[string]string{"sdk.record.format": "opencdc/json"}, "record.format"},
		"a batch":    {map[string]string{"sdk.batch.size": "10"}, "gathers"},
		"a delay":    {map[string]string{"sdk.batch.delay": "1s"}, "gathers"},
		"a rate":     {map[string]string{"sdk.rate.perSecond": "10"}, "rate"},
		"template":   {map[string]string{"path": t.TempDir() + "/{{ .Operation }}"}, "path is a template"},
		"rotation":   {map[string]string{"rotate.size": "1000"}, ""},
	} {
		settings := settingsOf(newPath(t), []string{"sdk.record.format", "template", "sdk.record.format.options",
			`{{ printf "%s" .Payload.After }}`})
		maps.Copy(settings, c.settings)
		d := sdk.Standard(file.Connector(zstd.Codec{})).NewDestination()
		if err := d.Configure(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		why := sdk.NoLines(d)
		if (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
		if err := d.Teardown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
