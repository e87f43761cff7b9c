package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func open(t testing.TB, path string, opts ...store.Option) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func newStore(t testing.TB, opts ...store.Option) *store.DB {
	return open(t, filepath.Join(t.TempDir(), "conduit.db"), opts...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestOpenCreatesPrivateFiles(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "state", "a ?#%é.db")
	db := open(t, path)
	must(t, db.Apply(t.Context(), declare(pipeline("p"))))
	entries, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	if len(entries) != 5 {
		t.Errorf("files: %v, want the store, its log, its index, its generation and its lock", entries)
	}
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s is %v, want 0600", e.Name(), info.Mode())
		}
	}
}

func TestEveryConnectionIsDurable(t *testing.T) {
	db := newStore(t)
	all, err := db.Settings(t.Context())
	must(t, err)
	if len(all) < 3 {
		t.Fatalf("checked %d connections only", len(all))
	}
	for _, got := range all {
		if got != "2 wal 1" {
			t.Errorf("synchronous, journal_mode, foreign_keys are %s, want 2 wal 1", got)
		}
	}
}

func TestConnectionThatIsNotDurableIsRefused(t *testing.T) {
	for params, want := range map[string]string{
		"_foreign_keys=on":                       "synchronous",
		"_synchronous=NORMAL&_foreign_keys=on":   "synchronous",
		"_synchronous=FULL":                      "foreign_keys",
		"_synchronous=FULL&_journal_mode=DELETE": "journal_mode",
	} {
		path := filepath.Join(t.TempDir(), "conduit.db") // the journal mode stays with the file
		must(t, open(t, path).Close())
		if err := store.OpenRaw(path, params); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %s", params, err, want)
		}
	}
}

func TestMigrationFromEveryVersion(t *testing.T) {
	want, err := newStore(t).Schema()
	must(t, err)
	for n := range store.MigrationNames() {
		path := filepath.Join(t.TempDir(), "conduit.db")
		must(t, store.CreateAt(t.Context(), path, n))
		db := open(t, path)
		got, err := db.Schema()
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("tables after migrating from version %d differ from those of a new store", n)
		}
		must(t, db.Apply(t.Context(), declare(pipeline("p"))))
		backups, err := filepath.Glob(path + ".before-*")
		must(t, err)
		if n == 0 && len(backups) > 0 || n > 0 &&
			(len(backups) != 1 || !strings.HasSuffix(backups[0], store.MigrationNames()[n])) {
			t.Errorf("backups before migrating from version %d: %v", n, backups)
		}
	}
}

func TestTablesAreStrict(t *testing.T) {
	db := newStore(t)
	tables, err := db.Schema()
	must(t, err)
	for _, ddl := range tables {
		if strings.HasPrefix(ddl, "CREATE TABLE") && !strings.Contains(ddl, "STRICT") &&
			!strings.Contains(ddl, "sqlite_sequence") {
			t.Errorf("not strict: %s", ddl)
		}
	}
	if err := db.Exec(`INSERT INTO runs (pipeline_id, epoch) VALUES ('p', 'many')`); err == nil {
		t.Error("a text was accepted as an epoch")
	}
}

func TestNewerStoreIsRefusedUntouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conduit.db")
	db := open(t, path)
	must(t, db.Exec(`INSERT INTO migrations VALUES ('9999_future', 1)`))
	must(t, db.Close())
	before, err := os.ReadFile(path)
	must(t, err)
	_, err = store.Open(t.Context(), path)
	wantError(t, err, store.ErrNewer, path, "9999_future", store.MigrationNames()[len(store.MigrationNames())-1])
	after, err := os.ReadFile(path)
	must(t, err)
	if !slices.Equal(before, after) {
		t.Error("the file changed")
	}
}

func TestDamagedFileIsRefusedUntouched(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "conduit.db")
	db := open(t, whole)
	must(t, db.Apply(t.Context(), declare(pipeline("p"))))
	must(t, db.Close())
	good, err := os.ReadFile(whole)
	must(t, err)
	scribbled := slices.Clone(good)
	for i := 4096; i < len(scribbled); i++ {
		scribbled[i] ^= 0xa5
	}
	foreign := slices.Clone(good)
	copy(foreign[68:72], "none")
	for name, content := range map[string][]byte{
		"empty": {}, "text": []byte(strings.Repeat("not a database ", 100)),
		"truncated": good[:4096], "scribbled": scribbled, "foreign": foreign,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "conduit.db")
			must(t, os.WriteFile(path, content, 0o600))
			want := store.ErrDamaged
			if name == "foreign" {
				want = store.ErrOther
			}
			_, err := store.Open(t.Context(), path)
			wantError(t, err, want, path)
			after, err := os.ReadFile(path)
			must(t, err)
			if !slices.Equal(content, after) {
				t.Error("the file changed")
			}
		})
	}
}

func TestLogWithoutFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conduit.db")
	must(t, os.WriteFile(path+"-wal", []byte("frames"), 0o600))
	_, err := store.Open(t.Context(), path)
	wantError(t, err, store.ErrDamaged, path+"-wal")
}

func TestUnfinishedCreationIsBegunAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conduit.db")
	must(t, os.WriteFile(path+".new", []byte("half"), 0o600))
	must(t, os.WriteFile(path+".new-wal", []byte("half"), 0o600))
	open(t, path)
}

func TestStateSurvivesReopening(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "conduit.db")
	db := open(t, path)
	must(t, db.Apply(ctx, declare(pipeline("p"))))
	must(t, db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "p", Phase: spec.PhaseRunning}}))
	must(t, db.SaveConnectorState(ctx, &spec.ConnectorState{ID: "p:src", PipelineID: "p",
		Active: map[string]string{"a": "b"}}))
	want, err := db.Declarations(ctx)
	must(t, err)
	must(t, db.Close())
	if _, err := db.States(ctx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("reading a closed store: %v", err)
	}
	db = open(t, path)
	got, err := db.Declarations(ctx)
	must(t, err)
	wantEqual(t, got, want)
	states, err := db.States(ctx)
	must(t, err)
	connector, err := db.ConnectorState(ctx, "p:src")
	must(t, err)
	if len(states) != 1 || states[0].Phase != spec.PhaseRunning || connector.Active["a"] != "b" {
		t.Errorf("states %+v, connector %+v", states, connector)
	}
}

func TestFullStoreRecovers(t *testing.T) {
	db := newStore(t)
	restore, err := db.LimitPages(2)
	must(t, err)
	p := pipeline("big")
	p.Description = strings.Repeat("x", 100_000)
	wantError(t, db.Apply(t.Context(), declare(p)), store.ErrFull)
	if all, err := db.Declarations(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after a failed change: %v, %v", all, err)
	}
	restore()
	must(t, db.Apply(t.Context(), declare(p)))
}

func TestFailingWriteLeavesItsNeighboursAlone(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	errs := db.Together(
		func() error { return db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "a"}}) },
		func() error {
			return db.SaveCheckpoints(ctx,
				[]spec.Checkpoint{{ConnectorID: "p:s", PipelineID: "p", Position: record.Position("1"), Epoch: 7,
					Sequence: 1}})
		},
		func() error { return db.SaveStates(cancelled, []spec.State{spec.State{PipelineID: "b"}}) },
		func() error { return db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "c"}}) },
	)
	if errs[0] != nil || !errors.Is(errs[1], store.ErrFenced) || !errors.Is(errs[2], context.Canceled) ||
		errs[3] != nil {
		t.Fatal(errs)
	}
	states, err := db.States(ctx)
	must(t, err)
	if len(states) != 2 || states[0].PipelineID != "a" || states[1].PipelineID != "c" {
		t.Errorf("states: %+v", states)
	}
}
