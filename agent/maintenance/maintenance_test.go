package maintenance_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/maintenance"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func pipeline(id string) spec.Pipeline {
	return spec.Pipeline{ID: id, Name: strings.Repeat(id+" ", 200), Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "file"}, {ID: "out", Type: spec.TypeDestination, Plugin: "file"}}}
}

// save saves the position n of sources of p, in one transaction.
func save(t testing.TB, db *store.DB, epoch int64, n int, sources ...string) {
	t.Helper()
	must(t, db.SaveCheckpoints(t.Context(), checkpoints(epoch, n, sources)))
}

func checkpoints(epoch int64, n int, sources []string) (all []spec.Checkpoint) {
	for _, s := range sources {
		all = append(all, spec.Checkpoint{ConnectorID: s, PipelineID: "p", Plugin: "file",
			Position: record.Position(strconv.Itoa(n)), Epoch: epoch, Sequence: int64(n)})
	}
	return all
}

func position(t testing.TB, db *store.DB, source string) int {
	t.Helper()
	c, err := db.Checkpoint(t.Context(), source)
	must(t, err)
	if c == nil {
		return 0
	}
	n, err := strconv.Atoi(string(c.Position))
	must(t, err)
	return n
}

func begin(t testing.TB, db *store.DB) int64 {
	t.Helper()
	epoch, err := db.BeginRun(t.Context(), "p")
	must(t, err)
	return epoch
}

func openDead(t testing.TB, path string) *deadletter.Store {
	s := &deadletter.Store{Path: deadletter.PathOf(path), Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { s.Close() })
	return s
}

func refuse(t testing.TB, s *deadletter.Store, from, to int) {
	t.Helper()
	p := pipeline("p")
	for n := from; n < to; n++ {
		must(t, s.Keep(t.Context(), &spec.Declaration{Pipeline: p},
			&engine.DeadLetter{SourceID: "p:in", RefusedBy: "p:out", Entry: "p:out", Err: errors.New("no"),
				Record: record.Record{Position: record.Position(strconv.Itoa(n)),
					After: record.Raw([]byte(strings.Repeat(strconv.Itoa(n), 100)))}}))
	}
	must(t, s.Flush(t.Context()))
}

func count(t testing.TB, s *deadletter.Store) (n int64) {
	t.Helper()
	totals, err := s.Totals(t.Context())
	must(t, err)
	for _, one := range totals {
		n += one.Count
	}
	return n
}

// TestBackupOfWhatIsWritten makes backups while positions are committed all the time. Each backup shows the store at
// one moment, which is not earlier than the start of the backup.
func TestBackupOfWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "conduit.db")
	db, dead := open(t, path), openDead(t, path)
	epoch := begin(t, db)
	save(t, db, epoch, 1, "p:a", "p:b")
	refuse(t, dead, 0, 3)
	ctx, stop := context.WithCancel(t.Context())
	committed, ended := make(chan int, 1), make(chan error)
	go func() {
		for n := 2; ctx.Err() == nil; n++ {
			if err := db.SaveCheckpoints(context.Background(), checkpoints(epoch, n, []string{"p:a", "p:b"})); err !=
				nil {
				ended <- err
				return
			}
			select {
			case <-committed:
			default:
			}
			committed <- n
		}
		ended <- nil
	}()
	for i := range 5 {
		least := <-committed
		to := filepath.Join(dir, fmt.Sprintf("backup-%d", i))
		written, err := maintenance.Backup(t.Context(), path, to)
		must(t, err)
		if len(written) != 2 {
			t.Fatalf("wrote %v", written)
		}
		copied := open(t, to)
		a, b := position(t, copied, "p:a"), position(t, copied, "p:b")
		if a != b || a < least {
			t.Errorf("backup %d has positions %d and %d, %d was committed before", i, a, b, least)
		}
		if n := count(t, openDead(t, to)); n != 3 {
			t.Errorf("backup %d has %d dead letters", i, n)
		}
	}
	stop()
	must(t, <-ended)
	info, err := os.Stat(filepath.Join(dir, "backup-0.dead-letters"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode of a backup is %v", info.Mode())
	}
}

// copyFile copies a file as cp does.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o600))
}

// stopped creates a store with the position n of p:in saved, closes it, and returns its epoch.
func stopped(t testing.TB, path string, n int) int64 {
	t.Helper()
	db := open(t, path)
	epoch := begin(t, db)
	save(t, db, epoch, n, "p:in")
	must(t, db.Close())
	return epoch
}

// TestCopiesWithoutTheLogAreRefused restores copies of the database file alone, as made by cp.
func TestCopiesWithoutTheLogAreRefused(t *testing.T) {
	dir := t.TempDir()
	path, naive := filepath.Join(dir, "conduit.db"), filepath.Join(dir, "naive")
	db := open(t, path)
	epoch := begin(t, db)
	save(t, db, epoch, 1, "p:in")
	copyFile(t, path, naive)
	copyFile(t, path, filepath.Join(dir, "whole"))
	copyFile(t, path+"-wal", filepath.Join(dir, "whole-wal"))
	save(t, db, epoch, 2, "p:in")
	must(t, db.Close())
	if got := position(t, open(t, filepath.Join(dir, "whole")), "p:in"); got != 1 {
		t.Errorf("a copy with its log is at %d", got)
	}
	refused := func(what, at string, says ...string) {
		t.Helper()
		_, err := store.Open(t.Context(), at)
		if !errors.Is(err, sqlitefile.ErrIncomplete) {
			t.Fatalf("%s: %v", what, err)
		}
		for _, s := range append(says, "conduit store repair", "conduit store restore FILE", at) {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", what, err, s)
			}
		}
	}
	refused("in a place of its own", naive, "copied without its log")
	copyFile(t, naive, path)
	refused("in place of a store that was closed", path, "copied without its log")

	o, err := maintenance.Repair(t.Context(), path, ".damaged")
	must(t, err)
	db = open(t, path)
	if next := begin(t, db); next <= epoch+1 {
		t.Errorf("the epoch after the repair is %d, that of the last run was %d", next, epoch)
	}
	if len(o.Kept) != 1 || len(o.Read) == 0 {
		t.Errorf("outcome: %+v", o)
	}
	save(t, db, begin(t, db), 5, "p:in")
	copyFile(t, path, filepath.Join(dir, "killed"))
	copyFile(t, path+"-wal", filepath.Join(dir, "killed-wal"))
	copyFile(t, path+".generation", filepath.Join(dir, "killed.generation"))
	copyFile(t, filepath.Join(dir, "whole"), filepath.Join(dir, "killed"))
	refused("under the log of a later run", filepath.Join(dir, "killed"), "belongs to a later state")
}

// TestOldBackupsFenceLaterRuns restores a backup by the command and by hand.
func TestOldBackupsFenceLaterRuns(t *testing.T) {
	for _, how := range []string{"restore", "by hand", "closed copy by hand"} {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "conduit.db")
			backup := path + ".backup"
			stopped(t, path, 7)
			_, err := maintenance.Backup(t.Context(), path, backup)
			must(t, err)
			if how == "closed copy by hand" {
				copyFile(t, path, backup)
			}
			later := stopped(t, path, 9)
			if how == "restore" {
				o, err := maintenance.Restore(t.Context(), backup, path, ".replaced")
				must(t, err)
				if len(o.Moved) != 1 || o.Moved[0].From != "7" || o.Moved[0].Was != "9" || len(o.Kept) != 1 ||
					len(o.Anew) != 0 {
					t.Errorf("outcome: %+v", o)
				}
				if got := position(t, open(t, path+".replaced"), "p:in"); got != 9 {
					t.Errorf("what was replaced is at %d", got)
				}
			} else {
				copyFile(t, backup, path)
			}
			db := open(t, path)
			if how != "restore" && (db.Adopted() == nil || len(db.Adopted().Sources) != 1) {
				t.Errorf("adopted %+v", db.Adopted())
			}
			err = db.SaveCheckpoints(t.Context(), checkpoints(later, 10, []string{"p:in"}))
			if !errors.Is(err, store.ErrFenced) {
				t.Errorf("a run of before the restore saves a position: %v", err)
			}
			if next := begin(t, db); next <= later {
				t.Errorf("the epoch is %d, that of the last run was %d", next, later)
			}
			events, err := db.Events(t.Context(), -1, 10)
			must(t, err)
			if len(events) != 1 || events[0].Reason != "StoreReplaced" ||
				!strings.Contains(events[0].Message, "p:in resumes after position 7") {
				t.Errorf("events: %+v", events)
			}
			must(t, db.Close())
			if again := open(t, path); again.Adopted() != nil {
				t.Error("it is taken for a backup once more")
			}
		})
	}
}

// populated creates a store and a dead-letter store of several pages each.
func populated(t testing.TB, path string) {
	t.Helper()
	db, dead := open(t, path), openDead(t, path)
	var all []spec.Declare
	for i := range 40 {
		all = append(all, spec.Declare{Pipeline: pipeline(fmt.Sprintf("p%02d", i)),
			Owner: spec.Owner{Kind: spec.OwnerAPI}})
	}
	must(t, db.Apply(t.Context(), &spec.Changes{Declare: all}))
	save(t, db, begin(t, db), 3, "p:in", "p:other")
	refuse(t, dead, 0, 100)
	must(t, db.Close())
	must(t, dead.Close())
}

var damagedPages = flag.Int("damaged-pages", 3, "pages of each file that are damaged, one at a time; 0 is all")

// TestDamageNeverPassesForAStore damages pages one at a time: it flips bits, clears the page, or cuts the file there.
// The damaged file is refused, or nothing in it is lost; and a repair keeps the readable content. Flipped bits are
// detectable only in the structure, not within a value, which may belong to a key.
func TestDamageNeverPassesForAStore(t *testing.T) {
	tried := 0
	defer func() { t.Logf("%d damaged files", tried) }()
	whole := filepath.Join(t.TempDir(), "conduit.db")
	populated(t, whole)
	const page = 4096
	for _, file := range []string{whole, deadletter.PathOf(whole)} {
		good, err := os.ReadFile(file)
		must(t, err)
		all := rand.Perm(len(good) / page)
		if n := *damagedPages; n > 0 {
			all = all[:min(n, len(all))]
		}
		for _, n := range all {
			for _, how := range []string{"flip", "cut", "zero"} {
				bad := append([]byte{}, good...)
				switch how {
				case "flip":
					for range 64 {
						bad[n*page+rand.IntN(page)] ^= 1 << rand.IntN(8)
					}
				case "zero":
					clear(bad[n*page : (n+1)*page])
				case "cut":
					bad = bad[:n*page]
				}
				tried++
				path := filepath.Join(t.TempDir(), "conduit.db")
				copyFile(t, whole, path)
				copyFile(t, deadletter.PathOf(whole), deadletter.PathOf(path))
				must(t, os.WriteFile(strings.Replace(file, whole, path, 1), bad, 0o600))
				damaged(t, fmt.Sprintf("%s %s of page %d", filepath.Base(file), how, n), path, file == whole,
					how == "flip")
			}
		}
	}
}

// TestUnknownFormat damages the format number in the header.
func TestUnknownFormat(t *testing.T) {
	const lastOfFormat = 47 // its offset in the header
	whole := filepath.Join(t.TempDir(), "conduit.db")
	populated(t, whole)
	for _, file := range []string{whole, deadletter.PathOf(whole)} {
		bad, err := os.ReadFile(file)
		must(t, err)
		bad[lastOfFormat] = 9
		path := filepath.Join(t.TempDir(), "conduit.db")
		copyFile(t, whole, path)
		copyFile(t, deadletter.PathOf(whole), deadletter.PathOf(path))
		must(t, os.WriteFile(strings.Replace(file, whole, path, 1), bad, 0o600))
		damaged(t, filepath.Base(file), path, file == whole, false)
	}
}

// TestRepairOfAnother checks that files with another application's id in the header are neither repaired nor restored.
func TestRepairOfAnother(t *testing.T) {
	const applicationID = 68 // its offset in the header
	for _, damage := range []func(path string) string{func(path string) string { return path }, deadletter.PathOf} {
		path := filepath.Join(t.TempDir(), "conduit.db")
		populated(t, path)
		file := damage(path)
		content, err := os.ReadFile(file)
		must(t, err)
		content[applicationID] ^= 2
		must(t, os.WriteFile(file, content, 0o600))
		o, err := maintenance.Repair(t.Context(), path, ".damaged")
		if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "it is ") {
			t.Errorf("%s: repaired %+v, %v", filepath.Base(file), o, err)
		}
		if file == path {
			o, err = maintenance.Restore(t.Context(), path, filepath.Join(t.TempDir(), "conduit.db"), ".replaced")
			if err == nil || !strings.Contains(err.Error(), path+" is not a backup of a store") {
				t.Errorf("restored %+v, %v", o, err)
			}
		}
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, content) {
			t.Errorf("%s is changed: %v", filepath.Base(file), err)
		}
	}
}

// damaged opens and repairs a state with a file that may be damaged; values says whether values in it may be damaged.
func damaged(t *testing.T, what, path string, inStore, values bool) {
	ctx := t.Context()
	db, err := store.Open(ctx, path)
	if err == nil {
		declared, err := db.Declarations(ctx)
		if err != nil || len(declared) != 40 || !values && position(t, db, "p:in") != 3 {
			t.Errorf("%s: it is opened, and %d of 40 pipelines are in it: %v", what, len(declared), err)
		}
		must(t, db.Close())
	} else if !inStore || !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrOther) &&
		!errors.Is(err, store.ErrNewer) {
		t.Errorf("%s: %v", what, err)
	}
	dead := &deadletter.Store{Path: deadletter.PathOf(path), Log: slog.New(slog.DiscardHandler)}
	totals, deadErr := dead.Totals(ctx)
	if deadErr == nil && !values && (len(totals) != 1 || totals[0].Count != 100) {
		t.Errorf("%s: dead letters are opened, and there are %v", what, totals)
	}
	_ = dead.Close()
	if err == nil && deadErr == nil {
		return
	}
	if found, checkErr := maintenance.Check(ctx, path); checkErr == nil && len(found[0].Found)+
		len(found[1].Found) == 0 && !errors.Is(err, store.ErrOther) && !errors.Is(err, store.ErrNewer) {
		t.Errorf("%s: refused with %v and %v, and a check finds nothing", what, err, deadErr)
	}
	if _, repairErr := maintenance.Repair(ctx, path, ".damaged"); repairErr != nil {
		if !strings.Contains(repairErr.Error(), "conduit store restore FILE") &&
			!errors.Is(repairErr, store.ErrOther) && !strings.Contains(repairErr.Error(), "move the file away") {
			t.Errorf("%s: repair: %v", what, repairErr)
		}
		return
	}
	db, err = store.Open(ctx, path)
	if err != nil {
		t.Errorf("%s: after the repair: %v", what, err)
		return
	}
	must(t, db.Close())
	if _, err := openDead(t, path).Totals(ctx); err != nil {
		t.Errorf("%s: dead letters after the repair: %v", what, err)
	}
}
