package file_test

import (
	"errors"
	"fmt"
	"log/slog"
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

const byCollection = "/{{ .Metadata.GetCollection }}.jsonl"

// recordsIn returns records of these collections.
func recordsIn(collections ...string) []record.Record {
	records := someRecords(1, len(collections), 5)
	for i, c := range collections {
		records[i].Metadata.Set(record.KeyCollection, c)
	}
	return records
}

// filesBelow returns the content of the files below dir, by path.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		found[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantFiles checks that each file contains exactly the wanted records.
func wantFiles(t *testing.T, dir string, all []record.Record, want map[string][]int) {
	t.Helper()
	got := filesBelow(t, dir)
	for name, indexes := range want {
		var records []record.Record
		for _, i := range indexes {
			records = append(records, all[i])
		}
		if text := encode(t, records); got[name] != text {
			t.Errorf("%s has %.300q, want %.300q", name, got[name], text)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("there are other files: %v", got)
	}
}

func TestAFileForEachCollection(t *testing.T) {
	dir := t.TempDir()
	d := destination(t, dir+byCollection)
	records := recordsIn("a", "b", "a", "c", "b", "a", "dir/e")
	mustWrite(t, d, records[:4])
	mustWrite(t, d, records[4:])
	wantFiles(
		t, dir, records, map[string][]int{"a.jsonl": {0, 2, 5}, "b.jsonl": {1, 4}, "c.jsonl": {3}, "dir/e.jsonl": {6}},
	)
}

func TestAFileForEachHour(t *testing.T) {
	dir := t.TempDir()
	d := destination(t, dir+`/{{ .Metadata.GetCreatedAt.UTC.Format "2006-01-02/15" }}.jsonl`)
	records := someRecords(1, 3, 5)
	noon := time.Date(2026, 2, 28, 23, 59, 0, 0, time.UTC)
	for i := range records {
		records[i].Metadata.Set(record.KeyCreatedAt, fmt.Sprint(noon.Add(time.Duration(i)*40*time.Second).UnixNano()))
	}
	mustWrite(t, d, records)
	wantFiles(t, dir, records, map[string][]int{"2026-02-28/23.jsonl": {0, 1}, "2026-03-01/00.jsonl": {2}})
}

// No record names a file outside the directory before the template. Such a record is refused, and the records before it
// are written.
func TestNoRecordLeadsOutside(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "in")
	if err := os.MkdirAll(filepath.Join(dir, "taken.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"out": root, "file": filepath.Join(root, "secret"), "loop.jsonl": "loop.jsonl", "missing.jsonl": "../missing",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"../x", "../..", "a/../../x", "/etc/x", "a//b", "a/./b", "out/x", "file/x", "loop", "missing", "taken",
		"a\x00b", "a\nb", strings.Repeat("n", 300), strings.Repeat("dir/", 2000),
	} {
		d := destination(t, dir+byCollection, "fsync", "false")
		records := recordsIn("good", name, "good")
		n, err := d.Write(t.Context(), records)
		var lost interface{ Lost() bool }
		if n != 1 || err == nil || errors.As(err, &lost) {
			t.Errorf("%.20q: wrote %d, %v", name, n, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := filesBelow(t, root); len(got) > 0 {
		t.Errorf("there are files outside: %v", got)
	}
}

// A path that the agent forbids is refused too, and no directory is created.
func TestForbiddenPathOfARecord(t *testing.T) {
	dir := t.TempDir()
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), AllowPath: func(path string) error {
		if strings.Contains(path, "forbidden") {
			return errors.New("not allowed")
		}
		return nil
	}})
	d := file.Connector(zstd.Codec{}).NewDestination()
	if err := errors.Join(d.Configure(ctx, settingsOf(dir+byCollection, nil)), d.Open(ctx)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Teardown(ctx) }()
	for _, name := range []string{"forbidden", "forbidden/x"} {
		if n, err := d.Write(ctx, recordsIn("a", name)); n != 1 || err == nil ||
			!strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: wrote %d, %v", name, n, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
	if err := file.Connector(zstd.Codec{}).NewDestination().Configure(ctx,
		settingsOf("/forbidden/{{ .Operation }}", nil)); err == nil {
		t.Error("a forbidden directory is taken")
	}
}

func TestTemplatesThatMakeNoPath(t *testing.T) {
	for path, want := range map[string]string{
		"{{ nothing }}.jsonl": `there is no function "nothing"`, "{{ .Operation": "unclosed action",
	} {
		err := file.Connector(zstd.Codec{}).NewDestination().Configure(t.Context(), settingsOf(path, nil))
		var setting sdk.SettingError
		if !errors.As(err, &setting) || setting.Setting != "path" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := tryDestination(t, filepath.Join(t.TempDir(), "no")+byCollection); err == nil ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a missing directory: %v", err)
	}
}

// When more files are needed than may be open, files are closed and reopened; each record is written once, in order.
func TestOpenFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	const most, files = 3, 10
	var names []string
	want := map[string][]int{}
	for i := range 200 {
		name := fmt.Sprint("f", i*7%files)
		names = append(names, name)
		want[name+".jsonl"] = append(want[name+".jsonl"], i)
	}
	records := recordsIn(names...)
	d := destination(t, dir+byCollection, "openFiles", fmt.Sprint(most), "fsync", "false")
	for batch := range slices.Chunk(records, 17) {
		mustWrite(t, d, batch)
		if n := file.Open(d); n > most {
			t.Fatalf("%d files are open", n)
		}
	}
	wantFiles(t, dir, records, want)
}

// An idle file is closed, so that it does not occupy disk space after its removal.
func TestIdleFilesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := destination(t, dir+byCollection)
		records := recordsIn("a", "b", "b", "a")
		mustWrite(t, d, records[:2])
		time.Sleep(40 * time.Second)
		mustWrite(t, d, records[2:3])
		time.Sleep(40 * time.Second)
		mustWrite(t, d, records[2:2])
		if n := file.Open(d); n != 1 {
			t.Errorf("%d files are open", n)
		}
		mustWrite(t, d, records[3:])
		wantFiles(t, dir, records, map[string][]int{"a.jsonl": {0, 3}, "b.jsonl": {1, 2}})
	})
}

// When one file cannot be written, the other files contain nothing of the batch, and a retry writes no duplicates.
func TestAFailureTakesBackOtherFiles(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := t.TempDir()
	long := strings.Repeat("x", 5000) + "\n"
	write(t, filepath.Join(dir, "full.jsonl"), long)
	write(t, filepath.Join(dir, "torn.jsonl"), "to")
	d := destination(t, dir+byCollection)
	records := recordsIn("a", "torn", "full", "a")
	mustWrite(t, d, records[:1])
	lift := limitFileSize(t, uint64(len(long)))
	n, err := d.Write(t.Context(), records[1:])
	lift()
	if n != 0 || err == nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	wantUnavailable(t, err)
	mustWrite(t, d, records[1:])
	got := filesBelow(t, dir)
	for name, want := range map[string]string{
		"a.jsonl":    encode(t, []record.Record{records[0], records[3]}),
		"torn.jsonl": "to\n" + encode(t, records[1:2]),
		"full.jsonl": long + encode(t, records[2:3]),
	} {
		if got[name] != want {
			t.Errorf("%s has %.300q, want %.300q", name, got[name], want)
		}
	}
}

// Each file of a template is rotated independently, and recreated after its removal.
func TestFilesOfATemplateAreRotatedAndFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		records := recordsIn("x/a", "x/b", "x/a", "x/a")
		d := destination(t, dir+byCollection, "rotate.size", fmt.Sprint(len(encode(t, records[:1]))))
		mustWrite(t, d, records[:3])
		var rotated []string
		for name, text := range filesBelow(t, dir) {
			if strings.HasPrefix(name, "x/a-") && text == encode(t, records[:1]) {
				rotated = append(rotated, name)
			}
		}
		if got := filesBelow(t, dir); len(rotated) != 1 || len(got) != 3 ||
			got["x/a.jsonl"] != encode(t, records[2:3]) {
			t.Fatalf("there are %v", got)
		}
		if err := os.RemoveAll(filepath.Join(dir, "x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		mustWrite(t, d, records[3:])
		wantFiles(t, dir, records, map[string][]int{"x/a.jsonl": {3}})
	})
}

// TestTimesInPaths has files by the hour of records, in a time zone.
func TestTimesInPaths(t *testing.T) {
	dir := t.TempDir()
	records := someRecords(1, 3, 5)
	for i, at := range []time.Time{
		time.Date(2026, 6, 1, 21, 59, 59, 0, time.UTC), time.Date(2026, 6, 1, 22, 0, 0, 0, time.UTC),
		time.Date(2026, 6, 1, 22, 59, 0, 0, time.UTC),
	} {
		records[i].Metadata.Set(record.KeyCreatedAt, strconv.FormatInt(at.UnixNano(), 10))
	}
	d := destination(t, dir+`/{{ strftime "%Y-%m-%d/%H" }}.jsonl`, "timezone", "Europe/Vienna")
	mustWrite(t, d, records)
	wantFiles(t, dir, records, map[string][]int{"2026-06-01/23.jsonl": {0}, "2026-06-02/00.jsonl": {1, 2}})
}

// An empty value has a name.
func TestEmptyValues(t *testing.T) {
	dir := t.TempDir()
	records := recordsIn("a", "", "a", "")
	mustWrite(t, destination(t, dir+"/{{ .Metadata.GetCollection }}/x.jsonl"), records[:2])
	mustWrite(t, destination(t, dir+byCollection, "emptyValue", "none"), records[2:])
	wantFiles(t, dir, records, map[string][]int{"a/x.jsonl": {0}, "unknown/x.jsonl": {1}, "a.jsonl": {2},
		"none.jsonl": {3}})
}

// Records that need too many new files are refused, until the next hour.
func TestFilesPerHour(t *testing.T) { synctest.Test(t, testFilesPerHour) }

func testFilesPerHour(t *testing.T) {
	dir := t.TempDir()
	records := recordsIn("a", "b", "a", "c", "b", "c")
	d := destination(t, dir+byCollection, "filesPerHour", "2", "openFiles", "1", "rotate.size", "1")
	n, err := d.Write(t.Context(), records[:5])
	var lost interface{ Lost() bool }
	if n != 3 || err == nil || errors.As(err, &lost) || !strings.Contains(err.Error(), "filesPerHour") {
		t.Fatalf("got %d, %v", n, err)
	}
	mustWrite(t, d, records[4:5]) // of a file that exists
	time.Sleep(time.Hour)
	mustWrite(t, d, records[5:])
	if got := filesBelow(t, dir)["c.jsonl"]; got != encode(t, records[5:]) {
		t.Errorf("got %q", got)
	}
}
