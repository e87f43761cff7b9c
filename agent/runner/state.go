package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// stateDir returns the directory of the durable state of the processors of a pipeline, "" for none.
func (r *Runner) stateDir(pipelineID string) string {
	if r.StateDir == "" {
		return ""
	}
	return filepath.Join(r.StateDir, texts.PathElement(pipelineID))
}

// ForgetState removes the state of the processors, and the logs of the destinations, of a pipeline that is being
// deleted.
func (r *Runner) ForgetState(pipelineID string) error {
	if r.Isolation != nil {
		if err := r.Isolation.RemoveAll(pipelineID); err != nil {
			return fmt.Errorf("cannot remove the logs of the isolated destinations of pipeline %q: %w", pipelineID, err)
		}
	}
	if r.StateDir == "" {
		return nil
	}
	if err := os.RemoveAll(r.stateDir(pipelineID)); err != nil {
		return fmt.Errorf("cannot remove the state of the processors of pipeline %q: %w", pipelineID, err)
	}
	return nil
}

// formerID matches the names in the directories of earlier versions, which were ids with "/" in the place of ":".
// Current names in the directory of a pipeline have a character that no id has.
var formerID = texts.Regexp(`^[A-Za-z0-9_.-]+$`)

// owner is a declared processor with the directory for state.
type owner struct {
	id  string // qualified
	dir string
}

// AdoptState moves the state of declared processors from the directories of earlier versions to the current ones.
// There, several processors could share a directory. Shared state is discarded, and so is the state of undeclared
// processors: with the state of another processor, a processor would drop records that it never saw; without state it
// lets some records through again. AdoptState must be called before pipelines start.
func (r *Runner) AdoptState(declared []spec.Declaration) {
	if _, err := os.Stat(r.StateDir); r.StateDir == "" || errors.Is(err, fs.ErrNotExist) {
		return
	}
	owners := r.formerOwners(declared)
	for former, all := range owners {
		if len(all) == 1 {
			if err := adopt(former, all[0].dir); err != nil {
				r.Log.Warn("cannot take over the state of a processor, it starts without state", "component", "agent",
					"processor_id", all[0].id, "dir", former, "err", err)
			}
		}
	}
	if err := r.discardFormer(owners); err != nil {
		r.Log.Warn("cannot discard the state of processors of a previous version", "component", "agent", "dir",
			r.StateDir, "err", err)
	}
}

// formerOwners returns the declared processors by the directories in which earlier versions kept their state.
func (r *Runner) formerOwners(declared []spec.Declaration) map[string][]owner {
	owners := map[string][]owner{}
	for i := range declared {
		p := &declared[i].Pipeline
		add := func(parent string, all []spec.Processor) {
			for _, d := range all {
				id := parent + ":" + d.ID
				former := strings.ReplaceAll(id, ":", string(filepath.Separator))
				if !filepath.IsLocal(former) {
					if _, err := os.Stat(filepath.Join(r.StateDir, former)); err != nil {
						continue
					}
					r.Log.Warn("ignoring state of a processor outside of the state directory", "component",
						"agent", "processor_id", id, "dir", filepath.Join(r.StateDir, former))
					continue
				}
				former = filepath.Join(r.StateDir, former)
				owners[former] = append(owners[former],
					owner{id, filepath.Join(r.stateDir(p.ID), processor.StateElement(parent, d.ID))})
			}
		}
		add(p.ID, p.Processors)
		for j := range p.Connectors {
			add(p.QualifiedID(p.Connectors[j].ID), p.Connectors[j].Processors)
		}
	}
	return owners
}

// adopt moves the files in former to dir, unless dir exists: then a later version has kept state there.
func adopt(former, dir string) error {
	// The directory gets its name when it is complete, so that a crash leaves no partial copy.
	draft := dir + "+draft"
	entries, err := os.ReadDir(former)
	_, begun := os.Stat(draft)
	if begun != nil && (err != nil || !slices.ContainsFunc(entries, isFile)) {
		return nil // there is no state
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(draft, 0o700); err != nil {
		return err
	}
	for _, e := range slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !isFile(e) }) {
		if err := os.Rename(filepath.Join(former, e.Name()), filepath.Join(draft, e.Name())); err != nil {
			return err
		}
	}
	return os.Rename(draft, dir)
}

func isFile(e fs.DirEntry) bool { return e.Type().IsRegular() }

// discardFormer removes the directories of earlier versions, and logs each one that has files.
func (r *Runner) discardFormer(owners map[string][]owner) error {
	pipelines, err := os.ReadDir(r.StateDir)
	if err != nil {
		return err
	}
	for _, p := range pipelines {
		dir := filepath.Join(r.StateDir, p.Name())
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a file, which no version of any processor keeps here
		}
		for _, e := range entries {
			if e.IsDir() && !formerID().MatchString(e.Name()) {
				continue
			}
			at := filepath.Join(dir, e.Name())
			if err := errors.Join(r.warnOfFormer(at, owners), os.RemoveAll(at)); err != nil {
				return err
			}
		}
		_ = os.Remove(dir) // removes only an empty directory
	}
	return nil
}

// warnOfFormer logs why the state below dir is not taken over.
func (r *Runner) warnOfFormer(dir string, owners map[string][]owner) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !isFile(e) {
			return err
		}
		in := filepath.Dir(path)
		why := "no declared processor uses it"
		switch all := owners[in]; {
		case len(all) == 1:
			why = fmt.Sprintf("%s has newer state", all[0].id)
		case len(all) > 1:
			var ids []string
			for _, o := range all {
				ids = append(ids, o.id)
			}
			why = fmt.Sprintf("%d processors shared it, and start without state: %s", len(all),
				strings.Join(ids, ", "))
		}
		r.Log.Warn("discarding state of processors of a previous version", "component", "agent", "file", path,
			"reason", why)
		return nil
	})
}
