package e2e_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

// TestConditionsOfAnAgent follows the conditions of a pipeline while the file changes.
func TestConditionsOfAnAgent(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	condition := func(kind spec.ConditionType) (c spec.Condition) {
		status, err := w.API.Status(t.Context(), "p")
		if err != nil {
			return c // not yet declared
		}
		for _, one := range status.Conditions {
			if one.Type == kind {
				c = one
			}
		}
		return c
	}
	wait := func(kind spec.ConditionType, status spec.ConditionStatus, reason string) spec.Condition {
		t.Helper()
		w.Wait(string(kind)+" is "+string(status)+" because "+reason, func() bool {
			c := condition(kind)
			return c.Status == status && c.Reason == reason
		})
		return condition(kind)
	}

	good := agenttest.File("p", "running", "1")
	w.Save("p.yaml", good)
	if c := wait(spec.ConditionReady, spec.ConditionTrue, "Running"); c.ObservedGeneration != 1 {
		t.Errorf("ready: %+v", c)
	}
	if c := condition(spec.ConditionApplied); c.Status != spec.ConditionTrue || c.LastTransitionTime.IsZero() {
		t.Errorf("applied: %+v", c)
	}

	w.Save("p.yaml", strings.Replace(good, "type: source", "type: sauce", 1))
	if c := wait(spec.ConditionValid, spec.ConditionFalse, "FileHasErrors"); c.File != "p.yaml" || c.Line != 6 ||
		c.Column != 24 || !strings.Contains(c.Message, "sauce") {
		t.Errorf("not valid: %+v", c)
	}
	if c := condition(spec.ConditionReady); c.Status != spec.ConditionTrue {
		t.Errorf("the last good version is as declared, but: %+v", c)
	}

	w.Save("p.yaml", strings.Replace(good, "plugin: log", "plugin: file, settings: {path: no/such/directory/f}", 1))
	c := wait(spec.ConditionRolledBack, spec.ConditionTrue, "UpdateFailed")
	if c.ObservedGeneration != 2 || c.File != "p.yaml" ||
		!strings.Contains(c.Message, "generation 1 is running because generation 2 failed: ") {
		t.Errorf("rolled back: %+v", c)
	}
	if c := condition(spec.ConditionReady); c.Status != spec.ConditionFalse || c.Reason != "RolledBack" {
		t.Errorf("ready: %+v", c)
	}

	w.Save("p.yaml", agenttest.File("p", "running", "2"))
	wait(spec.ConditionReady, spec.ConditionFalse, "Proving")
	wait(spec.ConditionRolledBack, spec.ConditionFalse, "NotRolledBack")
	w.Save("q.yaml", good)
	if c := wait(spec.ConditionConflict, spec.ConditionTrue, "DeclaredTwice"); c.File != "q.yaml" || c.Line != 3 {
		t.Errorf("in conflict: %+v", c)
	}
	if c := condition(spec.ConditionValid); c.Status != spec.ConditionTrue {
		t.Errorf("valid: %+v", c)
	}
}
