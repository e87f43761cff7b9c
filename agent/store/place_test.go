package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/store"
)

func TestFilesOfTheStoreAreMissed(t *testing.T) {
	for _, suffix := range []string{"", "-wal", ".lock"} {
		t.Run("conduit.db"+suffix, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "conduit.db")
			db := open(t, path)
			must(t, db.InPlace())
			must(t, db.Apply(t.Context(), declare(pipeline("p"))))
			must(t, db.InPlace())
			file := path + suffix
			must(t, os.Rename(file, path+".away"))
			wantError(t, db.InPlace(), store.ErrMoved, file, "agent")
			must(t, os.WriteFile(file, nil, 0o600))
			wantError(t, db.InPlace(), store.ErrMoved, file)
			must(t, os.Rename(path+".away", file))
			must(t, db.InPlace())
		})
	}
}

// TestADeletedStoreIsStillUsed checks that an open store keeps working after its files were deleted, and does not use
// other files in their place.
func TestADeletedStoreIsStillUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conduit.db")
	db := open(t, path)
	must(t, db.Apply(t.Context(), declare(pipeline("p"))))
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		must(t, os.Remove(path+suffix))
	}
	other := open(t, path)
	must(t, other.Apply(t.Context(), declare(pipeline("other"))))
	release, err := db.HoldReaders()
	must(t, err)
	_, err = db.Events(t.Context(), -1, 10)
	release()
	wantError(t, err, store.ErrMoved)
	must(t, db.Apply(t.Context(), declare(pipeline("q"))))
	all, err := db.Declarations(t.Context())
	must(t, err)
	if len(all) != 2 || all[0].Pipeline.ID != "p" || all[1].Pipeline.ID != "q" {
		t.Errorf("declared: %+v", all)
	}
	must(t, db.Close())
	must(t, other.Close())
	again := open(t, path)
	if all, err := again.Declarations(t.Context()); err != nil || len(all) != 1 || all[0].Pipeline.ID != "other" {
		t.Errorf("in the other store: %+v, error %v", all, err)
	}
}
