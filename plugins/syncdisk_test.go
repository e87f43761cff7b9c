package plugins_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// fileMember is a member that is a file, with the calls that it got.
type fileMember struct {
	file  *os.File
	dir   string
	err   error // of an earlier sync
	calls []string
}

func (m *fileMember) Device() uint64 { return 1 }

func (m *fileMember) Sync() error {
	m.calls = append(m.calls, "sync")
	return nil
}

func (m *fileMember) BeginSync() (sdk.UnsyncedFile, error) {
	m.calls = append(m.calls, "begin")
	return sdk.UnsyncedFile{File: m.file, Dir: m.dir}, m.err
}

func (m *fileMember) EndSync(err error) { m.calls = append(m.calls, fmt.Sprint("end ", err)) }

// Many files of a disk are synced together, whatever else is synced with them, and each gets its own outcome.
func TestSyncsManyFilesTogether(t *testing.T) {
	dir := t.TempDir()
	lost := errors.New("lost before")
	const files = 20
	all := make([]*fileMember, files)
	for i := range all {
		all[i] = &fileMember{dir: dir}
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		all[i].file = f
	}
	all[files-1].file.Close()                // cannot be synced
	all[1].file, all[2].file = nil, nil      // nothing to sync
	all[2].err = lost                        // and its content is lost
	all[3].dir = filepath.Join(dir, "moved") // the directory is gone
	other := &member{device: 1}
	synctest.Test(t, func(t *testing.T) {
		g := &plugins.SyncGroup{}
		var pipelines []string
		for i, m := range all {
			id := fmt.Sprintf("p%02d", i)
			g.Defer(id+":dst", m)
			pipelines = append(pipelines, id)
		}
		g.Defer("p04:second", all[5]) // of two pipelines
		g.Defer("q:dst", other)
		results := map[string]error{}
		g.Sync(append(pipelines, "q"), func(pipelines []string, err error) {
			for _, id := range pipelines {
				results[id] = err
			}
		})
		synctest.Wait()
		for i, m := range all {
			id, want := fmt.Sprintf("p%02d", i), []string{"begin", "end <nil>"}
			switch err := results[id]; i {
			case files - 1:
				if err == nil {
					t.Errorf("%s: no error of a closed file", id)
				}
				want[1] = fmt.Sprint("end ", err)
			case 1, 2:
				want = want[:1]
				if !errors.Is(err, m.err) {
					t.Errorf("%s: got %v, want %v", id, err, m.err)
				}
			default:
				if err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
			if !slices.Equal(m.calls, want) {
				t.Errorf("%s: got the calls %q, want %q", id, m.calls, want)
			}
		}
		if len(results) != files+1 || results["q"] != nil || other.synced != 1 {
			t.Errorf("%d results, and a member that is no file was synced %d times, with %v", len(results), other.synced,
				results["q"])
		}
	})
}
