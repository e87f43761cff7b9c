package files_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// The state of the directory is reported when it changes, in either direction, and only then.
func TestTheStateOfTheDirectoryIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store, notified := newMemory(), 0
		r := &files.Reconciler{Store: store, Parse: parse, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Notify: func() { notified++ }}
		other := dir("")
		other.Dir = "2"
		deaf := dir("x=a:1")
		deaf.NoEvents = errors.New("no instances left")
		for _, step := range []struct {
			seen    watch.Snapshot
			state   spec.DirectoryState
			reason  string // of the event
			message string // in the log, the event and the status
		}{
			{dir("x=a:1"), spec.DirectoryOK, "", ""},
			{watch.Snapshot{Err: &fs.PathError{Op: "open", Path: "pipes", Err: fs.ErrNotExist}}, spec.DirectoryMissing,
				"SourceMissing", "open pipes: file does not exist"},
			{watch.Snapshot{Err: errors.New("it is locked")}, spec.DirectoryUnreadable, "SourceUnreadable",
				"it is locked"},
			{other, spec.DirectoryHeld, "MassDeletionHeld", "all pipeline files are missing (x), so no pipeline is " +
				"withdrawn"},
			{deaf, spec.DirectoryPolled, "WatchDegraded", "no instances left"},
			{dir("x=a:1"), spec.DirectoryOK, "SourceFollowed", ""},
			{dir(""), spec.DirectoryEmptied, "AllFilesDeleted", "all pipeline files were deleted (x), so their"},
			{dir("x=a:1"), spec.DirectoryOK, "SourceFollowed", ""},
		} {
			if step.state == spec.DirectoryEmptied { // not at once: a program may replace the files one by one
				_ = r.Take(t.Context(), step.seen)
				if got := r.Status().Directory; got.State != spec.DirectoryOK {
					t.Errorf("it is %+v as soon as the files are gone", got)
				}
			}
			time.Sleep(time.Hour)
			began := time.Now()
			for range 2 {
				log.Reset()
				store.events, notified = nil, 0
				_ = r.Take(t.Context(), step.seen)
				got := r.Status().Directory
				if got.State != step.state || !strings.Contains(got.Message, step.message) ||
					(got.Message == "") != (step.message == "") || !got.Since.Equal(began) {
					t.Fatalf("it is %+v, want %s since %v: %s", got, step.state, began, step.message)
				}
				i := slices.IndexFunc(store.events, func(e spec.Event) bool {
					return e.Reason == step.reason && strings.Contains(e.Message, step.message)
				})
				switch {
				case step.reason == "":
				case i < 0 || notified == 0 || !strings.Contains(log.String(), "component=files") ||
					!strings.Contains(log.String(), step.message):
					t.Errorf("%s: events %+v, notified %d times, log %s", step.state, store.events, notified,
						log.String())
				}
				step.reason = ""
				time.Sleep(time.Minute)
			}
			if len(store.events) > 0 || notified > 0 || log.Len() > 0 {
				t.Errorf("%s is reported again: events %+v, log %s", step.state, store.events, log.String())
			}
		}
	})
}
