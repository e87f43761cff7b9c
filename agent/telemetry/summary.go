package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/spec"
)

// Summary summarizes the number of pipelines and pipeline files in each state in one line.
type Summary struct {
	Store interface {
		Store
		FileStates(ctx context.Context) ([]spec.FileState, error)
		InPlace() error
		Fault() error
	}
	Loop  *reconcile.Loop
	Files *files.Reconciler
}

// Text returns a line such as "12 running, 1 rolled back (orders.yaml:14)".
func (s *Summary) Text(ctx context.Context) string {
	var c counts
	declared, err := s.Store.Declarations(ctx)
	c.failed(err)
	for i := range declared {
		state, _ := s.Loop.State(declared[i].Pipeline.ID)
		c.pipeline(&declared[i], &state)
	}
	files, err := s.Store.FileStates(ctx)
	c.failed(err)
	for _, f := range files {
		if i := slices.IndexFunc(f.Problems, func(p spec.Problem) bool {
			return p.Severity == spec.SeverityError
		}); i >= 0 {
			c.count(badFiles, spec.Owner{Path: f.Path, Line: f.Problems[i].Line})
		}
	}
	c.failed(s.Store.InPlace())
	c.failed(s.Store.Fault())
	status := s.Files.Status()
	c.failed(status.Err)
	if status.Err == nil && status.Directory.State != spec.DirectoryOK {
		c.failed(errors.New(status.Directory.Message))
	}
	return strings.ReplaceAll(c.String(), "\n", " ")
}

// counts counts pipelines and files by their state.
type counts struct {
	numbers map[string]int
	places  map[string][]string // places of the declarations in their files
	errors  []string
}

const (
	rolledBack = "rolled back"
	stalled    = "not delivering"
	badFiles   = "bad files"
	maxPlaces  = 3
)

// states are the counted states, in the order of the line.
var states = []string{string(spec.PhaseRunning), stalled, rolledBack, string(spec.PhaseRecovering),
	string(spec.PhaseDegraded),
	string(spec.PhaseStarting), string(spec.PhaseStopping), string(spec.PhaseStopped), badFiles}

func (c *counts) pipeline(d *spec.Declaration, s *spec.State) {
	a := s.LastAttempt
	switch {
	case a != nil && a.Error != "" && a.Generation == d.Generation && s.RunningGeneration != 0 &&
		s.RunningGeneration != d.Generation:
		c.count(rolledBack, d.Owner)
	case s.Phase == spec.PhaseRecovering, s.Phase == spec.PhaseDegraded:
		c.count(string(s.Phase), d.Owner)
	case s.Stall != nil && d.Withdrawn.IsZero() && d.Want() == spec.StatusRunning:
		c.count(stalled, d.Owner)
	default:
		c.count(string(s.Phase), spec.Owner{})
	}
}

// count counts an object in a state, and records where it is declared.
func (c *counts) count(state string, at spec.Owner) {
	if c.numbers == nil {
		c.numbers, c.places = map[string]int{}, map[string][]string{}
	}
	c.numbers[state]++
	if at.Path == "" {
		return
	}
	if n := len(c.places[state]); n < maxPlaces {
		c.places[state] = append(c.places[state], fmt.Sprintf("%s:%d", at.Path, at.Line))
	} else if n == maxPlaces {
		c.places[state] = append(c.places[state], "…")
	}
}

func (c *counts) failed(err error) {
	if err != nil {
		c.errors = append(c.errors, err.Error())
	}
}

// String lists the states with a nonzero count, and then the errors.
func (c *counts) String() string {
	var parts []string
	for _, state := range states {
		n := c.numbers[state]
		if n == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", n, state)
		if state == badFiles && n == 1 {
			part = "1 bad file"
		}
		if places := c.places[state]; len(places) > 0 {
			part += " (" + strings.Join(places, ", ") + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		parts = []string{"no pipelines"}
	}
	return strings.Join(append(parts, c.errors...), ", ")
}
