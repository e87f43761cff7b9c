package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// names returns the sorted names of the files in the directory of path.
func names(t testing.TB, path string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// plain are settings that write the position of each record as a line.
var plain = []string{"sdk.record.format", "template", "sdk.record.format.options", `{{ printf "%s" .Position }}`}

func rotating(t testing.TB, path string, settings ...string) sdk.Destination {
	t.Helper()
	d := sdk.Standard(file.Connector(zstd.Codec{})).NewDestination()
	if err := d.Configure(t.Context(), settingsOf(path, append(settings, plain...))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(t.Context()) })
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// wantAll reads the file and its rotated files with the source, and checks that each line occurs once, in order.
func wantAll(t *testing.T, path string, n int) {
	t.Helper()
	s := open(t, filepath.Dir(path), nil)
	byFile := map[string][]string{}
	for _, r := range s.read(n) {
		origin := r.Metadata.Get("file.path")
		byFile[origin] = append(byFile[origin], texts([]record.Record{r})...)
	}
	var got []string
	files := make([]string, 0, len(byFile))
	for name := range byFile {
		if name != path {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	for _, name := range append(files, path) {
		got = append(got, byFile[name]...)
	}
	for i, line := range got {
		if line != fmt.Sprint(i+1) {
			t.Fatalf("line %d is %q; the files are %q", i+1, line, names(t, path))
		}
	}
}

func TestRotatesBySize(t *testing.T) {
	for _, compression := range []string{"none", "gzip", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			path := newPath(t)
			d := rotating(t, path, "rotate.size", "100", "rotate.compression", compression)
			for i := range 50 {
				mustWrite(t, d, someRecords(1+10*i, 10, 0))
			}
			if compression != "none" {
				wait.For(t, "all are compressed", func() bool {
					all := names(t, path)
					return !slices.ContainsFunc(all, func(n string) bool {
						return n != filepath.Base(path) && (filepath.Ext(n) == ".log" || filepath.Ext(n) == ".tmp")
					})
				})
			}
			if n := len(names(t, path)); n < 15 {
				t.Errorf("there are %d files", n)
			}
			for _, name := range names(t, path) {
				if info, err := os.Stat(filepath.Join(filepath.Dir(path), name)); err != nil || compression == "none" &&
					info.Size() > 100 {
					t.Errorf("%s has %d bytes: %v", name, info.Size(), err)
				}
			}
			if err := d.Teardown(t.Context()); err != nil {
				t.Fatal(err)
			}
			unbase(t, path)
			wantAll(t, path, 500)
		})
	}
}

// unbase moves the rotated files away from names that belong to the base file: a source reads files with the name of a
// rotated file only after their base file.
func unbase(t *testing.T, path string) {
	t.Helper()
	for _, name := range names(t, path) {
		if strings.HasPrefix(name, "app-") {
			rename(t, filepath.Join(filepath.Dir(path), name), filepath.Join(filepath.Dir(path), "a"+name))
		}
	}
}

func TestRotatesByTime(t *testing.T) {
	path := newPath(t)
	d := rotating(t, path, "rotate.interval", "24h")
	mustWrite(t, d, someRecords(1, 1, 0))
	mustWrite(t, d, someRecords(2, 1, 0))
	wantContent(t, path, "1\n2\n")
	if err := d.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	age(t, path, 24*time.Hour)
	d = rotating(t, path, "rotate.interval", "24h")
	mustWrite(t, d, someRecords(3, 1, 0))
	wantContent(t, path, "3\n")
	all := names(t, path)
	if len(all) != 2 {
		t.Fatalf("got %q", all)
	}
	wantContent(t, filepath.Join(filepath.Dir(path), all[0]), "1\n2\n")
}

// TestSourceFollowsRotation reads while the files are written and rotated.
func TestSourceFollowsRotation(t *testing.T) {
	for _, compression := range []string{"none", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			path := newPath(t)
			d := rotating(t, path, "rotate.size", "40", "rotate.compression", compression)
			var pos record.Position
			for i := range 10 {
				mustWrite(t, d, someRecords(10*i, 10, 0))
				var want []string
				for n := range 10 {
					want = append(want, fmt.Sprint(10*i+n))
				}
				pos = open(t, path, pos).want(want...)[9].Position
			}
		})
	}
}

func TestKeepsSome(t *testing.T) {
	path := newPath(t)
	other := filepath.Join(filepath.Dir(path), "app-20260101.log")
	write(t, other, "of another program\n")
	d := rotating(t, path, "rotate.size", "1", "rotate.keep", "2")
	for i := range 9 {
		mustWrite(t, d, someRecords(i, 1, 0))
	}
	wait.For(t, "the oldest are removed", func() bool { return len(names(t, path)) == 4 })
	wantContent(t, path, "8\n")
	wantContent(t, other, "of another program\n")
	all := names(t, path)
	wantContent(t, filepath.Join(filepath.Dir(path), all[2]), "7\n")
}

// TestTidiesWhatAKillLeft checks that a rotated file is compressed at the next start, and that partial copies are
// replaced.
func TestTidiesWhatAKillLeft(t *testing.T) {
	path := newPath(t)
	at := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	write(t, path, "2\n")
	write(t, at("app-20260927T101112.000.000.log"), "1\n")
	write(t, at(".app-20260927T101112.000.000.log.gz.tmp"), "half")
	write(t, at("app-20260927T101112.000.000.log.gz"), "torn")
	rotating(t, path, "rotate.size", "100", "rotate.compression", "gzip")
	wait.For(t, "it is compressed", func() bool {
		return slices.Equal(names(t, path), []string{"app-20260927T101112.000.000.log.gz", "app.log"})
	})
	open(t, at("app-20260927T101112.000.000.log.gz"), nil).want("1")
}

// TestRotatesTheTarget checks that a link stays in place while its target is rotated.
func TestRotatesTheTarget(t *testing.T) {
	path := newPath(t)
	link := filepath.Join(t.TempDir(), "link.log")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	d := rotating(t, link, "rotate.size", "1")
	mustWrite(t, d, someRecords(1, 1, 0))
	mustWrite(t, d, someRecords(2, 1, 0))
	wantContent(t, path, "2\n")
	if n := len(names(t, path)); n != 2 || len(names(t, link)) != 1 {
		t.Errorf("there are %q and %q", names(t, path), names(t, link))
	}
}

func TestRotationSettings(t *testing.T) {
	for setting, value := range map[string]string{"rotate.compression": "gzip", "rotate.keep": "3"} {
		err := file.Connector(zstd.Codec{}).NewDestination().Configure(t.Context(),
			map[string]string{"path": "x", "rotate.compression": "none", setting: value})
		if err == nil || !strings.Contains(err.Error(), "needs rotate.size or rotate.interval") {
			t.Errorf("%s: got %v", setting, err)
		}
	}
}
