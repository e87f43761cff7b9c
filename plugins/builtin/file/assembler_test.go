package file_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

var histories = flag.Int("histories", 30, "number of random histories of logs of containers")

// container is the log of a container as a runtime writes it and the kubelet, or Docker, rotates it.
type container struct {
	t         *testing.T
	r         *rand.Rand
	path      string
	docker    bool
	lines     int
	unwritten []byte              // the rest of a physical line
	parts     map[string][]string // by stream: the unwritten parts of the current line
	want      map[string][]string // by stream, or "" for lines in another format: the texts of the records
	rotated   []string            // plain rotated files
	rotations int
}

func newContainer(t *testing.T, r *rand.Rand, path string, docker bool) *container {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "")
	return &container{t: t, r: r, path: path, docker: docker, parts: map[string][]string{}, want: map[string][]string{}}
}

// part returns the physical line for a part of a line.
func (c *container) part(stream, text string, last bool) string {
	when := time.Date(2026, 11, 28, 12, 0, 0, c.lines, time.UTC).Format(time.RFC3339Nano)
	if !c.docker {
		return when + " " + stream + " " + map[bool]string{true: "F ", false: "P "}[last] + text + "\n"
	}
	if last {
		text += "\n"
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		c.t.Fatal(err)
	}
	return `{"log":` + string(quoted) + `,"stream":"` + stream + `","time":"` + when + "\"}\n"
}

// next returns the next physical line: a part of a line of either stream, or, rarely, something else.
func (c *container) next() string {
	c.lines++
	if c.r.IntN(15) == 0 {
		text := fmt.Sprintf("garbage %d of %s", c.lines, c.path)
		c.want[""] = append(c.want[""], text)
		return text + "\n"
	}
	stream := []string{"stdout", "stderr"}[c.r.IntN(2)]
	if len(c.parts[stream]) == 0 {
		text := fmt.Sprintf("%d of %s<\"\\>%s", c.lines, c.path, strings.Repeat("x", c.r.IntN(60)))
		if c.r.IntN(3) == 0 {
			text = "# " + text
		}
		c.want[stream] = append(c.want[stream], text)
		for c.r.IntN(2) == 0 && len(text) > 1 {
			n := c.r.IntN(len(text))
			c.parts[stream] = append(c.parts[stream], text[:n])
			text = text[n:]
		}
		c.parts[stream] = append(c.parts[stream], text)
	}
	parts := c.parts[stream]
	c.parts[stream] = parts[1:]
	return c.part(stream, parts[0], len(parts) == 1)
}

// grow writes some bytes, which may end in the middle of a physical line.
func (c *container) grow() {
	for range c.r.IntN(8) {
		c.unwritten = append(c.unwritten, c.next()...)
	}
	n := c.r.IntN(len(c.unwritten) + 1)
	write(c.t, c.path, string(c.unwritten[:n]))
	c.unwritten = c.unwritten[n:]
}

// rotate writes the rest of the last physical line and rotates the file.
func (c *container) rotate() {
	n := bytes.IndexByte(c.unwritten, '\n') + 1
	write(c.t, c.path, string(c.unwritten[:n]))
	c.unwritten = c.unwritten[n:]
	c.rotations++
	if c.docker {
		c.rotateDocker()
		return
	}
	for _, name := range c.rotated {
		c.compress(name, name+".gz")
	}
	c.rotated = []string{fmt.Sprintf("%s.20261128-%06d", c.path, c.rotations)}
	rename(c.t, c.path, c.rotated[0])
	write(c.t, c.path, "")
}

func (c *container) rotateDocker() {
	for i := c.rotations; i > 1; i-- {
		if from := c.path + "." + strconv.Itoa(i-1) + ".gz"; i > 2 || c.r.IntN(2) == 0 {
			_ = os.Rename(from, c.path+"."+strconv.Itoa(i)+".gz")
		}
	}
	if _, err := os.Stat(c.path + ".1.gz"); err == nil {
		rename(c.t, c.path+".1.gz", c.path+".2.gz")
	}
	rename(c.t, c.path, c.path+".1")
	write(c.t, c.path, "")
	c.compress(c.path+".1", c.path+".1.gz")
}

// compress replaces a file by a compressed copy, as the kubelet does.
func (c *container) compress(from, to string) {
	content, err := os.ReadFile(from)
	if err != nil {
		c.t.Fatal(err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content)
	_ = w.Close()
	write(c.t, from+".tmp", b.String())
	rename(c.t, from+".tmp", to)
	if err := os.Remove(from); err != nil {
		c.t.Fatal(err)
	}
}

// finish writes the rest of everything.
func (c *container) finish() {
	for _, stream := range []string{"stdout", "stderr"} {
		for len(c.parts[stream]) > 0 {
			parts := c.parts[stream]
			c.parts[stream] = parts[1:]
			c.unwritten = append(c.unwritten, c.part(stream, parts[0], len(parts) == 1)...)
		}
	}
	write(c.t, c.path, string(c.unwritten))
	c.unwritten = nil
}

// grouped joins lines to groups. A line with "#" in front begins a group.
func grouped(lines []string) (groups []string) {
	for _, line := range lines {
		if len(groups) == 0 || strings.HasPrefix(line, "#") {
			groups = append(groups, line)
			continue
		}
		groups[len(groups)-1] += "\n" + line
	}
	return groups
}

// history is a random history: logs of containers grow and are rotated, and a source reads them and is killed.
type history struct {
	t        *testing.T
	r        *rand.Rand
	logs     []*container
	path     string
	settings []string
	groups   bool
	source   *source
	accepted []record.Record // acknowledged, or not yet
	floor    int             // number of accepted records that a kill keeps at least
	trace    bytes.Buffer    // what happened
}

// open opens the source at a position.
func (h *history) open(pos record.Position) {
	h.source = &source{file.Connector(zstd.Codec{}).NewSource(), h.t}
	ctx := sdk.WithEnv(h.t.Context(), &sdk.Env{Logger: slog.New(slog.NewTextHandler(&h.trace, nil))})
	if err := errors.Join(h.source.Configure(ctx, settingsOf(h.path, h.settings)), h.source.Open(ctx, pos)); err != nil {
		h.t.Fatal(err)
	}
}

// reads accepts the records that arrive within a time.
func (h *history) reads(d time.Duration) {
	ctx, cancel := context.WithTimeout(h.t.Context(), d)
	defer cancel()
	for {
		records, err := h.source.Read(ctx)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				h.t.Fatal(err)
			}
			return
		}
		h.accepted = append(h.accepted, records...)
	}
}

// kill continues after an earlier record.
func (h *history) kill() {
	n := h.floor + h.r.IntN(len(h.accepted)-h.floor+1)
	h.accepted, h.floor = h.accepted[:n], n
	var pos record.Position
	if n > 0 {
		pos = h.accepted[n-1].Position
	}
	if file.Held(h.source.Source) < 0 {
		h.t.Fatalf("%d bytes are held", file.Held(h.source.Source))
	}
	fmt.Fprintf(&h.trace, "killed after record %d, position %s\n", n, pos)
	if err := h.source.Teardown(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	h.open(pos)
}

// rotate rotates a log that was read before.
func (h *history) rotate(c *container) {
	for _, r := range h.accepted {
		if r.Metadata.Get("file.path") == c.path {
			c.rotate()
			h.floor = len(h.accepted)
			fmt.Fprintf(&h.trace, "rotated %s after record %d\n", c.path, h.floor)
			return
		}
	}
}

func (h *history) run() {
	h.open(nil)
	for range 10 + h.r.IntN(50) {
		switch c := h.logs[h.r.IntN(len(h.logs))]; h.r.IntN(10) {
		case 0, 1:
			h.rotate(c)
		case 2, 3:
			h.kill()
		case 4, 5, 6:
			h.reads(2 * time.Second)
		default:
			c.grow()
		}
	}
	for _, c := range h.logs {
		c.finish()
	}
	end := 5 * time.Second
	if h.groups {
		end = 6 * time.Minute // the last groups
	}
	h.reads(end)
	h.check()
	h.kill()
	h.reads(end)
	h.check()
	if n := file.Held(h.source.Source); n != 0 {
		h.t.Errorf("%d bytes are held in the end", n)
	}
	if err := h.source.Teardown(h.t.Context()); err != nil {
		h.t.Error(err)
	}
}

// check compares the accepted records with the written lines.
func (h *history) check() {
	h.t.Helper()
	got := map[string][]string{}
	for i, r := range h.accepted {
		text, _ := r.After.Raw()
		stream := r.Metadata.Get("log.iostream")
		if (stream == "") != (r.Metadata.Get("file.error") != "") || r.Metadata.Get("file.partial") != "" {
			h.t.Errorf("record %d has metadata %v", i, r.Metadata)
		}
		if !slices.IsSortedFunc(r.Metadata, func(a, b record.Field) int { return strings.Compare(a.Key, b.Key) }) {
			h.t.Errorf("record %d has unsorted metadata %v", i, r.Metadata)
		}
		key := r.Metadata.Get("file.path") + " " + stream
		got[key] = append(got[key], string(text))
	}
	for _, c := range h.logs {
		for _, stream := range []string{"stdout", "stderr", ""} {
			want := c.want[stream]
			if h.groups && stream != "" {
				want = grouped(want)
			}
			if got := got[c.path+" "+stream]; !slices.Equal(got, want) {
				h.t.Fatalf("%s of %s: got\n%q, want\n%q\n%s", stream, c.path, got, want, &h.trace)
			}
		}
	}
}

// TestHistoriesOfContainers compares random histories with their model: each line is in one record, whole and in order
// within its stream, although logs are rotated and reading is interrupted anywhere.
func TestHistoriesOfContainers(t *testing.T) {
	t.Parallel()
	for i := range *histories {
		runVirtual(t, strconv.Itoa(i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 0))
			h := &history{t: t, r: r, groups: r.IntN(2) == 0}
			dir := t.TempDir()
			docker := r.IntN(2) == 0
			for k := range 1 + 2*r.IntN(2) {
				path := filepath.Join(dir, "pods", fmt.Sprintf("ns_pod-%d_uid", k), "app", "0.log")
				h.logs = append(h.logs, newContainer(t, r, path, docker))
			}
			h.path = h.logs[0].path
			if len(h.logs) > 1 {
				h.path = filepath.Join(dir, "pods", "*", "*", "*.log")
			}
			h.settings = []string{"partial.timeout", "5m", "multiline.timeout", "5m", "format",
				[]string{"auto", map[bool]string{true: "docker", false: "cri"}[docker]}[r.IntN(2)]}
			if h.groups {
				h.settings = append(h.settings, "multiline.start", "^#")
			}
			h.run()
		})
	}
}

// readFor reads what arrives within a time.
func (s *source) readFor(d time.Duration) []record.Record {
	h := &history{t: s.t.(*testing.T), source: s}
	h.reads(d)
	return h.accepted
}

const when = "2026-11-28T12:00:00.5Z "

func TestLogOfContainer(t *testing.T) { synctest.Test(t, testLogOfContainer) }

func testLogOfContainer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop_web-0_c4e9", "app", "3.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, when+"stdout P a\n"+when+"stderr F e\nno\n"+when+"stdout F b\n")
	records := open(t, path, nil, "format", "cri").want("e", "no", "ab")
	for i, want := range []map[string]string{{"log.iostream": "stderr"}, {}, {"log.iostream": "stdout"}} {
		if want["log.iostream"] != "" {
			want["opencdc.createdAt"] = strconv.FormatInt(at(t, strings.TrimSpace(when)), 10)
		} else {
			offset := 2*len(when) + len("stdout P a\nstderr F e\n")
			want["file.error"] = fmt.Sprintf("cannot parse line 3 of %s at offset %d as cri: it does not begin with a "+
				"time of RFC 3339; the payload is the whole line: set format to docker or lines, or exclude the file",
				path, offset)
		}
		want["file.path"], want["k8s.container.name"], want["k8s.container.restart_count"] = path, "app", "3"
		want["k8s.namespace.name"], want["k8s.pod.name"], want["k8s.pod.uid"] = "shop", "web-0", "c4e9"
		if got := records[i].Metadata; !got.Equal(record.NewMetadata(want)) {
			t.Errorf("got metadata %v of record %d, want %v", got, i, want)
		}
		key, _ := records[i].Key.Raw()
		if got := string(key); got != []string{"2", "3", "1"}[i] {
			t.Errorf("got key %s of record %d", got, i)
		}
	}
}

// TestPartialLines checks when a line without an end becomes a record, and that it is marked.
func TestPartialLines(t *testing.T) {
	wantPartial := func(t *testing.T, records []record.Record, want ...string) {
		t.Helper()
		if got := texts(records); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		for i, r := range records {
			if got := r.Metadata.Get("file.partial"); (got == "true") != strings.HasSuffix(want[i], "…") {
				t.Errorf("record %q has file.partial %q", want[i], got)
			}
		}
	}
	runVirtual(t, "no end", func(t *testing.T) {
		path := newPath(t)
		write(t, path, when+"stdout P a\n"+when+"stderr F e\n"+when+"stdout P …\n")
		s := open(t, path, nil, "format", "cri", "partial.timeout", "10s")
		wantPartial(t, s.readFor(9*time.Second), "e")
		write(t, path, when+"stdout P b…\n")
		wantPartial(t, s.readFor(9*time.Second))
		records := s.readFor(2 * time.Second)
		wantPartial(t, records, "a…b…")
		write(t, path, when+"stdout F end\n")
		wantPartial(t, s.readFor(time.Second), "end")
		wantPartial(t, open(t, path, records[0].Position, "format", "cri").readFor(time.Minute), "end")
	})
	runVirtual(t, "no end of the stream while the other one goes on", func(t *testing.T) {
		path := newPath(t)
		write(t, path, when+"stdout P a…\n")
		s := open(t, path, nil, "format", "cri")
		for i := range 4 {
			write(t, path, when+fmt.Sprintf("stderr F %d\n", i))
			wantPartial(t, s.readFor(time.Second), strconv.Itoa(i))
		}
		wantPartial(t, s.readFor(2*time.Second), "a…")
	})
	runVirtual(t, "the source waits for the pipeline", func(t *testing.T) {
		path := newPath(t)
		write(t, path, when+"stdout P a\n")
		s := open(t, path, nil, "format", "cri")
		wantPartial(t, s.readFor(time.Second))
		write(t, path, when+"stdout F b\n")
		time.Sleep(time.Hour) // backpressure
		wantPartial(t, s.readFor(time.Second), "ab")
	})
	runVirtual(t, "end of the pipeline", func(t *testing.T) {
		path := newPath(t)
		waiting := when + "stdout P a…\n" + when + "stderr F e\n" + when + "stderr P f…"
		write(t, path, when+"stdout F first\n"+waiting)
		s := open(t, path, nil, "format", "cri")
		wantPartial(t, s.readFor(3*time.Second), "first", "e")
		if n := *s.Source.(*file.Source).Progress().Bytes; n != int64(len(waiting)) {
			t.Errorf("%d bytes are unread", n)
		}
		s.Source.(*file.Source).Finish()
		wantPartial(t, s.readFor(time.Second), "a…", "f…")
		if n := *s.Source.(*file.Source).Progress().Bytes; n != 0 {
			t.Errorf("%d bytes are unread in the end", n)
		}
	})
	runVirtual(t, "end of the pipeline behind a rotation", func(t *testing.T) {
		path := newPath(t)
		write(t, path, when+"stdout P a\n")
		s := open(t, path, nil, "format", "cri")
		wantPartial(t, s.readFor(time.Second))
		rename(t, path, path+".1")
		write(t, path, when+"stdout F b\n")
		s.Source.(*file.Source).Finish()
		wantPartial(t, s.readFor(time.Second), "ab")
	})
	runVirtual(t, "the file is cut off", func(t *testing.T) {
		path := newPath(t)
		write(t, path, when+"stdout P a…\n"+when+"stderr F e\n")
		s := open(t, path, nil, "format", "cri")
		wantPartial(t, s.readFor(time.Second), "e")
		truncate(t, path)
		write(t, path, when+"stdout F b\n")
		wantPartial(t, s.readFor(time.Second), "a…", "b")
	})
	runVirtual(t, "the file is removed", func(t *testing.T) {
		path := newPath(t)
		write(t, path, when+"stdout P a…\n")
		defer file.LeaveAfter(time.Second)()
		s := open(t, path+"*", nil, "format", "cri", "partial.timeout", "1h")
		wantPartial(t, s.readFor(2*time.Second))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		wantPartial(t, s.readFor(10*time.Second), "a…")
	})
	runVirtual(t, "a group", func(t *testing.T) {
		path := newPath(t)
		write(t, path, when+"stdout F #1\n"+when+"stderr F #2\n"+when+"stdout F a\n"+when+"stderr P b…\n")
		s := open(t, path, nil, "format", "cri", "multiline.start", "^#", "multiline.timeout", "2s")
		wantPartial(t, s.readFor(time.Second))
		wantPartial(t, s.readFor(3*time.Second), "#1\na")
		wantPartial(t, s.readFor(5*time.Second), "#2\nb…")
	})
}

// TestLongPartialLines checks the bounds of unfinished lines.
func TestLongPartialLines(t *testing.T) {
	const part = 1 << 20
	runVirtual(t, "a line", func(t *testing.T) {
		path := newPath(t)
		line := when + "stdout P " + strings.Repeat("x", part) + "\n"
		write(t, path, when+"stderr F e\n"+strings.Repeat(line, 17)+when+"stdout F x\n"+when+"stdout F f\n")
		s := open(t, path, nil, "format", "cri")
		if got := texts(s.readFor(time.Second)); !slices.Equal(got, []string{"e", "f"}) {
			t.Fatalf("got %.100q", got)
		}
		s.leavesOut("line 2 of "+path, fmt.Sprintf("it has %d bytes from offset %d on", 17*part+1,
			len(when)+len("stderr F e\n")))
		if n := file.Held(s.Source); n != 0 {
			t.Errorf("%d bytes are held", n)
		}
	})
	runVirtual(t, "lines of many files", func(t *testing.T) {
		dir := t.TempDir()
		line := when + "stdout P " + strings.Repeat("x", part) + "\n"
		for i := range 10 {
			write(t, filepath.Join(dir, strconv.Itoa(i)+".log"), strings.Repeat(line, 10)+when+"stdout F \n")
		}
		s := open(t, dir, nil, "format", "cri")
		for total := 0; total < 100*part; {
			records, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				text, _ := r.After.Raw()
				total += len(text)
			}
			if n := file.Held(s.Source); n > 65<<20 {
				t.Fatalf("%d bytes are held", n)
			}
		}
		if n := file.Held(s.Source); n != 0 {
			t.Errorf("%d bytes are held in the end", n)
		}
	})
}

// TestNoRawLaneForContainers checks the reason.
func TestNoRawLaneForContainers(t *testing.T) {
	for _, format := range []string{"cri", "docker", "auto"} {
		s := open(t, newPath(t), nil, "format", format)
		if got := s.Source.(*file.Source).NoLines(); got != "format "+format+" parses the lines" {
			t.Errorf("got %q", got)
		}
	}
}
