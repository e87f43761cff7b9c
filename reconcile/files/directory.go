package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// directory returns the state of the directory in a scan after which these files are retained. deleted has the files
// that were deleted together, if there are none left.
func directory(s *watch.Snapshot, retained, deleted []string, before spec.Directory) spec.Directory {
	now := spec.Directory{State: spec.DirectoryOK, Since: before.Since}
	switch {
	case errors.Is(s.Err, fs.ErrNotExist):
		now.State, now.Message = spec.DirectoryMissing, s.Err.Error()
	case s.Err != nil:
		now.State, now.Message = spec.DirectoryUnreadable, s.Err.Error()
	case len(retained) > 0:
		now.State, now.Message = spec.DirectoryHeld, massDeletion(retained)
	case len(deleted) > 0:
		now.State, now.Message = spec.DirectoryEmptied, "all pipeline files were deleted ("+some(deleted)+
			"), so their pipelines are stopped and then removed"
	case s.NoEvents != nil:
		now.State, now.Message = spec.DirectoryPolled,
			fmt.Sprintf("changes of pipeline files are noticed with a delay, because file system events are not "+
				"available: %v",
				s.NoEvents)
	}
	if now.State != before.State {
		now.Since = time.Now()
	}
	return now
}

// maxNamed is the maximum number of files that a message names.
const maxNamed = 5

// some names the first of the files.
func some(files []string) string {
	names := strings.Join(files[:min(len(files), maxNamed)], ", ")
	if more := len(files) - maxNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

func massDeletion(retained []string) string {
	return fmt.Sprintf("all pipeline files are missing (%s), so no pipeline is withdrawn until one appears; to "+
		"confirm the removal: conduit reload --prune", some(retained))
}

// directoryReasons are the reasons of the events that report a state of the directory.
var directoryReasons = map[spec.DirectoryState]string{
	spec.DirectoryOK: "SourceFollowed", spec.DirectoryPolled: "WatchDegraded", spec.DirectoryMissing: "SourceMissing",
	spec.DirectoryUnreadable: "SourceUnreadable", spec.DirectoryHeld: "MassDeletionHeld",
	spec.DirectoryEmptied: "AllFilesDeleted",
}

// observe logs and records the state of the directory if it has changed. It does not report a directory that is in
// order at the first scan. The caller holds r.mu.
func (r *Reconciler) observe(ctx context.Context, before spec.Directory) {
	now := r.status.Directory
	first := before.State == "" && now.State == spec.DirectoryOK
	if ctx.Err() != nil || first || now.State == before.State && now.Message == before.Message {
		return
	}
	log, e := r.Log.With("component", "files"), spec.Event{Type: spec.EventWarning, Reason: directoryReasons[now.State],
		Message: now.Message}
	switch now.State {
	case spec.DirectoryOK:
		e.Type, e.Message = spec.EventNormal, "the pipelines directory can be read again, watching its files"
		if before.State == spec.DirectoryEmptied {
			e.Message = "there are pipeline files again"
		}
		log.Info("pipeline files are watched again")
	case spec.DirectoryPolled:
		log.Warn("cannot watch the pipelines directory, polling it instead", "err", now.Message)
	case spec.DirectoryHeld, spec.DirectoryEmptied:
		log.Warn(now.Message)
	default:
		log.Error("cannot follow the pipeline files; running pipelines continue", "err", now.Message)
	}
	if err := r.Store.Apply(ctx, &spec.Changes{Events: []spec.Event{e}}); err != nil {
		log.Error("cannot record an event", "reason", e.Reason, "err", err)
	}
	if r.Notify != nil {
		r.Notify()
	}
}
