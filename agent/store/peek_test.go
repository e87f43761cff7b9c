package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

func TestPeek(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "conduit.db")
	declared, files, err := store.Peek(ctx, path)
	if len(declared)+len(files) > 0 || err != nil {
		t.Fatalf("without a store: %v, %v, %v", declared, files, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) > 0 {
		t.Fatalf("peeking made %v", entries)
	}

	db, err := store.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p := spec.Pipeline{ID: "p"}
	spec.Normalize(&p)
	err = db.Apply(ctx, &spec.Changes{Declare: []spec.Declare{{Pipeline: p,
		Owner: spec.Owner{Kind: spec.OwnerFile, Path: "p.yaml", Line: 3}}},
		Files: []spec.FileState{{Path: "p.yaml", Hash: "1", Pipelines: []string{"p"}}}})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := db.Declarations(ctx)
	known, _ := db.FileStates(ctx)
	check := func(when string) {
		t.Helper()
		declared, files, err := store.Peek(ctx, path)
		if diff := cmp.Diff(want, declared) + cmp.Diff(known, files); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", when, err, diff)
		}
	}
	check("while it is open")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check("after it was closed")
	if db, err = store.Open(ctx, path); err != nil {
		t.Fatalf("after peeking the store cannot be opened: %v", err)
	}
	defer db.Close()
	check("after it was opened again")

	other := filepath.Join(t.TempDir(), "other.db")
	if err := os.WriteFile(other, []byte("no store"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Peek(ctx, other); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("of something else: %v", err)
	}
}
