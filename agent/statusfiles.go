package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Changes are gathered before status files are written. The pause is writeShare times the duration of the last write,
// within bounds, so that writing takes a bounded share of a CPU.
const (
	writeShare = 10
	minPause   = 200 * time.Millisecond
	maxPause   = 2 * time.Second
	firstPause = time.Second
	retryPause = 5 * time.Second
	// For this many first pauses the files of pending pipelines are not written: most would change when their version
	// is confirmed, and a thousand files take longer to write than the pipelines to start.
	startPauses = 10
)

// StatusWriter writes the status of each pipeline file, for tools that deploy files and cannot query the API. A status
// file exists as long as its pipeline file does, or a pipeline that was declared in it runs. All exported fields are
// set before use.
type StatusWriter struct {
	Dir   string // created when there is a file to write
	Store interface {
		FileStates(ctx context.Context) ([]spec.FileState, error)
		Declarations(ctx context.Context) ([]spec.Declaration, error)
	}
	State   func(id string) (spec.State, bool) // of a pipeline
	Changes *notify.Broadcast                  // changes of the data in the files
	Log     *slog.Logger
	// Pause is the time before the first write, in which the agent starts the declared pipelines; 0: a second.
	Pause time.Duration

	written map[string][sha256.Size]byte // of the content, by path of the pipeline file; owned by Run
	failing bool                         // the last write failed; owned by Run
	starts  time.Time                    // until then pending files are held back; owned by Run
	held    bool                         // the last write held files back; owned by Run
}

// fileStatus is the content of a status file.
type fileStatus struct {
	File string `json:"file"`
	// SHA-256 of the content to which the status applies, hex; "" when the file is gone or unreadable
	Hash      string           `json:"hash"`
	SeenAt    time.Time        `json:"seenAt,omitzero"`
	Final     bool             `json:"settled"` // nothing more happens without a change, except retries of failures
	Result    spec.Outcome     `json:"result"`
	Problems  []spec.Problem   `json:"problems"`
	Pipelines []pipelineResult `json:"pipelines"`
}

// pipelineResult is the result for a pipeline that a file owns, or dropped.
type pipelineResult struct {
	ID                string        `json:"id"`
	Result            spec.Outcome  `json:"result"`
	Status            spec.Status   `json:"status"` // declared
	Override          spec.Status   `json:"override,omitempty"`
	Withdrawn         time.Time     `json:"withdrawn,omitzero"` // the file no longer declares it
	Generation        int64         `json:"generation"`
	RunningGeneration int64         `json:"runningGeneration"`
	Phase             spec.Phase    `json:"phase"`
	Since             time.Time     `json:"since"`
	Error             string        `json:"error,omitempty"`
	RetryAt           *time.Time    `json:"retryAt,omitempty"`
	LastAttempt       *spec.Attempt `json:"lastAttempt,omitempty"`
	Stall             *spec.Stall   `json:"stall,omitempty"` // why it delivers nothing
}

// Run keeps the status files up to date until ctx ends, and then writes the final states.
func (s *StatusWriter) Run(ctx context.Context) error {
	s.find()
	last := context.WithoutCancel(ctx)
	pause := cmp.Or(s.Pause, firstPause)
	s.starts = time.Now().Add(startPauses * pause)
	for {
		select {
		case <-ctx.Done():
			s.starts = time.Time{}
			s.update(last)
			return nil
		case <-time.After(pause):
		}
		changed, began := s.Changes.Next(), time.Now()
		s.update(last)
		pause = min(max(minPause, writeShare*time.Since(began)), maxPause)
		var retry <-chan time.Time
		switch {
		case s.failing:
			retry = time.After(retryPause)
		case s.held:
			retry = time.After(time.Until(s.starts))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-retry:
		}
	}
}

// find records the status files that remain from an earlier run.
func (s *StatusWriter) find() {
	s.written = map[string][sha256.Size]byte{}
	entries, _ := os.ReadDir(s.Dir) // there may be none
	for _, e := range entries {
		if file, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			s.written[file] = [sha256.Size]byte{}
		}
	}
}

// update writes changed files.
func (s *StatusWriter) update(ctx context.Context) {
	all, err := s.collect(ctx)
	if err == nil {
		err = s.write(all)
	}
	switch {
	case err != nil && !s.failing:
		s.Log.Error("cannot write status files, trying again; tools that wait for them do not see the status of "+
			"pipeline files",
			"component", "agent", "dir", s.Dir, "err", err)
	case err == nil && s.failing:
		s.Log.Info("status files can be written again", "component", "agent", "dir", s.Dir)
	}
	s.failing = err != nil
}

// collect returns the content of the status files, by path of the pipeline file.
func (s *StatusWriter) collect(ctx context.Context) (map[string]*fileStatus, error) {
	// Files are read before declarations, so that no declaration is older than the content for which it is reported.
	files, err := s.Store.FileStates(ctx)
	if err != nil {
		return nil, err
	}
	declared, err := s.Store.Declarations(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*fileStatus, len(files))
	for _, f := range files {
		all[f.Path] = &fileStatus{File: f.Path, Hash: f.Hash, SeenAt: f.SeenAt, Problems: f.Problems}
	}
	for i := range declared {
		d := &declared[i]
		state, _ := s.State(d.Pipeline.ID)
		result := resultOf(d, &state)
		gone := !d.Withdrawn.IsZero() && result.Phase == spec.PhaseStopped
		if d.Owner.Kind != spec.OwnerFile || gone {
			continue
		}
		f := all[d.Owner.Path]
		if f == nil {
			f = &fileStatus{File: d.Owner.Path}
			all[d.Owner.Path] = f
		}
		f.Pipelines = append(f.Pipelines, result)
	}
	for _, f := range all {
		f.conclude()
	}
	return all, nil
}

func resultOf(d *spec.Declaration, s *spec.State) pipelineResult {
	r := pipelineResult{ID: d.Pipeline.ID, Status: d.Pipeline.Status, Override: d.Override, Withdrawn: d.Withdrawn,
		Result: spec.OutcomePending, Generation: d.Generation, RunningGeneration: s.RunningGeneration,
		Phase: cmp.Or(s.Phase, spec.PhaseStopped), Since: s.Since, Error: s.Error, RetryAt: s.RetryAt,
		LastAttempt: s.LastAttempt, Stall: s.Stall}
	if d.Withdrawn.IsZero() {
		r.Result = spec.OutcomeOf(d.Want(), d.Generation, s)
	}
	return r
}

// conclude fills in fields that follow from the others.
func (f *fileStatus) conclude() {
	is := func(o spec.Outcome) bool {
		return slices.ContainsFunc(f.Pipelines, func(p pipelineResult) bool { return p.Result == o })
	}
	wrong := slices.ContainsFunc(f.Problems, func(p spec.Problem) bool { return p.Severity == spec.SeverityError })
	switch {
	case is(spec.OutcomePending):
		f.Result = spec.OutcomePending
	case wrong || is(spec.OutcomeFailed):
		f.Result = spec.OutcomeFailed
	default:
		f.Result = spec.OutcomeOK
	}
	f.Final = f.Result != spec.OutcomePending
	if f.Problems == nil {
		f.Problems = []spec.Problem{}
	}
	if f.Pipelines == nil {
		f.Pipelines = []pipelineResult{}
	}
}

// write writes the files whose content has changed, except pending ones during the start, and removes those without
// content. It continues after an error, and returns one error.
func (s *StatusWriter) write(all map[string]*fileStatus) (failed error) {
	starting := time.Now().Before(s.starts)
	s.held = false
	for path, f := range all {
		if starting && f.Result == spec.OutcomePending {
			s.held = true
			continue
		}
		text, err := json.Marshal(f)
		sum := sha256.Sum256(text)
		if err == nil && s.written[path] != sum {
			err = s.replace(path, text)
		}
		if err != nil {
			failed = err
			continue
		}
		s.written[path] = sum
	}
	for path := range s.written {
		if all[path] != nil {
			continue
		}
		if err := os.Remove(s.place(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = err
			continue
		}
		delete(s.written, path)
	}
	return failed
}

// replace atomically replaces a status file by text, indented. Owner and group of the agent may read it, but not
// others: errors of plugins may quote settings.
func (s *StatusWriter) replace(path string, text []byte) error {
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	draft := filepath.Join(s.Dir, ".draft")
	if err := os.WriteFile(draft, indented.Bytes(), 0o640); err != nil {
		return err
	}
	return os.Rename(draft, s.place(path))
}

// place returns the path of the status file for a pipeline file.
func (s *StatusWriter) place(path string) string { return filepath.Join(s.Dir, path+".json") }
