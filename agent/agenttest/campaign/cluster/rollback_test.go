package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestRollbackIsShared saves a version of a pipeline that fails, and kills the member that rolled it back, and then the
// next owner. Each owner runs the last known good version without trying the failed one, and reports which version
// failed on which member. The last owner joined when only the failing version existed.
func TestRollbackIsShared(t *testing.T) {
	t.Parallel()
	eachStore(t, 3, func(t *testing.T, url string) {
		f := joined(t, []string{url, url}, 1, ttl)
		f.feed(10)
		f.await()
		path := filepath.Join(f.dir, "pipelines", "p0.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		missing := filepath.Join(f.dir, "missing", "out")
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), f.out(0), missing)), 0o644); err != nil {
			t.Fatal(err)
		}
		first := f.member(f.owner("p0"))
		first.awaitLog("pipeline was rolled back")
		late := newMember(t, "late", filepath.Join(f.dir, "pipelines"), url, ttl)
		late.start()
		f.members = append(f.members, late)
		for _, m := range f.members {
			if m != first {
				m.awaitFailed(first)
			}
		}
		kill := func(m *member) (next *member) {
			t.Helper()
			m.kill()
			f.members = f.without(m)
			f.feed(10)
			f.await()
			next = f.member(f.owner("p0"))
			next.mustRollBack(first)
			return next
		}
		second := kill(first)
		last := kill(second)
		// An edit is tried.
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), f.out(0), f.out(0)+"-2")),
			0o644); err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the next version to run", func() bool {
			s := decoded[rest.PipelineStatus](last, "GET", "/v1/pipelines/p0/status")
			return s.State.RunningGeneration == s.Generation && s.State.LastAttempt.Error == ""
		})
		last.awaitCluster("no version failed", func(c *spec.Cluster) bool {
			return len(c.Pipelines) == 1 && c.Pipelines[0].Failed == nil
		})
	})
}

// without returns the members except one.
func (f *fleet) without(gone *member) (all []*member) {
	for _, m := range f.members {
		if m != gone {
			all = append(all, m)
		}
	}
	return all
}

// awaitFailed waits until a member that does not run p0 reports that its declared version failed on another member.
func (m *member) awaitFailed(on *member) {
	m.t.Helper()
	var s rest.PipelineStatus
	wait.For(m.t, m.name+" to know that a version failed", func() bool {
		status, _ := m.request("GET", "/v1/pipelines/p0/status", "")
		if status != 200 {
			return false // it has not read the file yet
		}
		s = decoded[rest.PipelineStatus](m, "GET", "/v1/pipelines/p0/status")
		return s.Placement != nil && s.Placement.Failed != nil
	})
	if failed := s.Placement.Failed; failed.Member != on.name || !strings.Contains(failed.Error, "missing") ||
		failed.Generation != 2 {
		m.t.Errorf("%s says that %+v", m.name, failed)
	}
}

// mustRollBack checks that a member, which runs p0, runs the last known good version, and never tried the declared one.
func (m *member) mustRollBack(failedOn *member) {
	m.t.Helper()
	s := decoded[rest.PipelineStatus](m, "GET", "/v1/pipelines/p0/status")
	if s.Generation != 2 || s.State.RunningGeneration != 1 || s.State.LastAttempt == nil ||
		s.State.LastAttempt.Generation != 2 ||
		!strings.Contains(s.State.LastAttempt.Error, "on the member "+failedOn.name) {
		m.t.Errorf("%s has version %d declared, %d runs, and tried %+v", m.name, s.Generation,
			s.State.RunningGeneration, s.State.LastAttempt)
	}
	rolledBack := false
	for _, c := range s.Conditions {
		rolledBack = rolledBack || c.Type == spec.ConditionRolledBack && c.Status == spec.ConditionTrue
	}
	if log := m.log.String()[m.before:]; !rolledBack || strings.Contains(log, "cannot update the pipeline") ||
		strings.Contains(log, "pipeline failed") {
		m.t.Errorf("%s tried the version that failed elsewhere, or does not say that it rolled back: %+v", m.name,
			s.Conditions)
	}
}
