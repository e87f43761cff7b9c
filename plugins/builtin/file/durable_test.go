package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// A sync in two steps covers the bytes written before it began, and no later ones.
func TestSyncInTwoSteps(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	d := &durable{}
	if err := d.use(f, info); err != nil {
		t.Fatal(err)
	}
	registered := 0
	later := func(sdk.Syncer) { registered++ }
	begin := func(want sdk.UnsyncedFile, wantErr error) {
		t.Helper()
		if got, err := d.BeginSync(); got != want || !errors.Is(err, wantErr) {
			t.Fatalf("got %+v and %v, want %+v and %v", got, err, want, wantErr)
		}
	}
	write := func(want error) {
		t.Helper()
		if err := d.wrote(later); !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	begin(sdk.UnsyncedFile{}, nil)
	write(nil)
	write(nil)
	begin(sdk.UnsyncedFile{File: f, Dir: filepath.Dir(f.Name())}, nil)
	write(nil)
	if registered != 2 {
		t.Errorf("registered %d times, want once and once more for what was written during the sync", registered)
	}
	d.EndSync(nil)
	begin(sdk.UnsyncedFile{File: f}, nil) // its name is on disk
	lost := errors.New("lost")
	d.EndSync(lost)
	write(lost)
	begin(sdk.UnsyncedFile{}, lost)
	if err := d.Sync(); !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
}
