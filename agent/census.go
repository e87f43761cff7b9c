package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec"
)

// Summary says in a line how the pipelines and their files fare.
func (a *Agent) Summary(ctx context.Context) string {
	var c census
	declared, err := a.Store.Declarations(ctx)
	c.trouble(err)
	for i := range declared {
		s, _ := a.Loop.State(declared[i].Pipeline.ID)
		c.pipeline(&declared[i], &s)
	}
	files, err := a.Store.FileStates(ctx)
	c.trouble(err)
	for _, f := range files {
		if i := slices.IndexFunc(f.Problems, func(p spec.Problem) bool { return p.Severity == spec.SeverityError }); i >= 0 {
			c.count(badFiles, spec.Owner{Path: f.Path, Line: f.Problems[i].Line})
		}
	}
	c.trouble(a.Store.InPlace())
	followed := a.Files.Status()
	c.trouble(followed.Err)
	if followed.Err == nil && followed.Directory.State != spec.DirectoryOK {
		c.trouble(errors.New(followed.Directory.Message))
	}
	return strings.ReplaceAll(c.String(), "\n", " ")
}

// census counts pipelines and files by how they fare.
type census struct {
	numbers  map[string]int
	places   map[string][]string // where in their files they are
	troubles []string
}

const (
	rolledBack = "rolled back"
	badFiles   = "bad files"
	mostPlaces = 3
)

// fares are what is counted, in the order in which it is told.
var fares = []string{string(spec.PhaseRunning), rolledBack, string(spec.PhaseRecovering), string(spec.PhaseDegraded),
	string(spec.PhaseStarting), string(spec.PhaseStopping), string(spec.PhaseStopped), badFiles}

func (c *census) pipeline(d *spec.Declaration, s *spec.State) {
	a := s.LastAttempt
	switch {
	case a != nil && a.Error != "" && a.Generation == d.Generation && s.RunningGeneration != 0 && s.RunningGeneration != d.Generation:
		c.count(rolledBack, d.Owner)
	case s.Phase == spec.PhaseRecovering, s.Phase == spec.PhaseDegraded:
		c.count(string(s.Phase), d.Owner)
	default:
		c.count(string(s.Phase), spec.Owner{})
	}
}

// count counts one that fares like this, and notes where it is declared.
func (c *census) count(fare string, at spec.Owner) {
	if c.numbers == nil {
		c.numbers, c.places = map[string]int{}, map[string][]string{}
	}
	c.numbers[fare]++
	if at.Path == "" {
		return
	}
	if n := len(c.places[fare]); n < mostPlaces {
		c.places[fare] = append(c.places[fare], fmt.Sprintf("%s:%d", at.Path, at.Line))
	} else if n == mostPlaces {
		c.places[fare] = append(c.places[fare], "…")
	}
}

func (c *census) trouble(err error) {
	if err != nil {
		c.troubles = append(c.troubles, err.Error())
	}
}

// String is like "12 running, 1 rolled back (orders.yaml:14)".
func (c *census) String() string {
	var parts []string
	for _, fare := range fares {
		if n := c.numbers[fare]; n > 0 {
			part := fmt.Sprintf("%d %s", n, fare)
			if fare == badFiles && n == 1 {
				part = "1 bad file"
			}
			if places := c.places[fare]; len(places) > 0 {
				part += " (" + strings.Join(places, ", ") + ")"
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		parts = []string{"no pipelines"}
	}
	return strings.Join(append(parts, c.troubles...), ", ")
}
