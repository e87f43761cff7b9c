package crash_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// cutFile is a file of a destination that the host syncs.
type cutFile struct {
	file *os.File
	dir  string
	size int // bytes that were written
}

func (f *cutFile) Device() uint64 { return 1 }
func (f *cutFile) Sync() error    { return f.file.Sync() }
func (f *cutFile) EndSync(error)  {}
func (f *cutFile) BeginSync() (sdk.UnsyncedFile, error) {
	return sdk.UnsyncedFile{File: f.file, Dir: f.dir}, nil
}

// Many files that are synced together are on disk before a power cut, with their names.
func TestPowerCutsLoseNoFileOfAGroup(t *testing.T) {
	for name, options := range map[string][]string{"journal": nil, "no journal": {"-O", "^has_journal"}} {
		t.Run(name, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			cutGroups(t, newDisk(t, options...))
		})
	}
}

// cutGroups writes groups of files to the disk and cuts its power after each.
func cutGroups(t *testing.T, d *disk) {
	for cut := range *cuts {
		g := &plugins.SyncGroup{MostDirty: math.MaxInt64}
		dir := filepath.Join(d.dir, fmt.Sprint(cut))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := sdk.SyncDir(d.dir); err != nil {
			t.Fatal(err)
		}
		var files []*cutFile
		var pipelines []string
		for i := range 30 {
			f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(i)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, &cutFile{file: f, dir: dir})
			pipelines = append(pipelines, fmt.Sprintf("p%d", i))
		}
		write := func(f *cutFile) {
			n, err := f.file.Write(bytes.Repeat([]byte{'x'}, 1+rand.IntN(20_000)))
			if err != nil {
				t.Fatal(err)
			}
			f.size += n
		}
		for range 1 + cut%3 {
			for i, f := range files {
				write(f)
				g.Defer(pipelines[i]+":dst", f)
			}
			left, synced := len(files), make(chan error, len(files))
			g.Sync(pipelines, func(done []string, err error) {
				for range done {
					synced <- err
				}
			})
			for ; left > 0; left-- {
				if err := <-synced; err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, f := range files { // nobody waits for these bytes
			if _, err := f.file.Write(make([]byte, 5000)); err != nil {
				t.Fatal(err)
			}
		}
		d.cut(t)
		for _, f := range files {
			f.file.Close()
		}
		d.unmount(t)
		d.mount(t)
		for _, f := range files {
			text, err := os.ReadFile(f.file.Name())
			if err != nil || bytes.Count(text[:min(len(text), f.size)], []byte{'x'}) != f.size {
				t.Errorf("after cut %d: %s has %d bytes, want %d that were synced: %v", cut, f.file.Name(), len(text), f.size,
					err)
			}
		}
	}
}
