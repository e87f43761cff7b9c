package spec_test

import (
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

func TestPlacement(t *testing.T) {
	rules := spec.Placement{Labels: map[string]string{"site": "berlin", "gpu": ""}}
	for name, c := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"all and more":  {map[string]string{"site": "berlin", "gpu": "", "disk": "ssd"}, true},
		"another value": {map[string]string{"site": "paris", "gpu": ""}, false},
		"one missing":   {map[string]string{"site": "berlin"}, false},
		"none":          {nil, false},
	} {
		if got := rules.Allow(c.labels); got != c.want {
			t.Errorf("%s: allowed %v", name, got)
		}
	}
	if !(spec.Placement{}).Allow(nil) {
		t.Error("without rules, a member without labels is not allowed")
	}
}

func TestTermsChanges(t *testing.T) {
	labels := func(all map[string]string) spec.Placement { return spec.Placement{Labels: all} }
	a := spec.Terms{Cluster: spec.ClusterRelaxed, Placement: labels(map[string]string{"site": "berlin", "gpu": ""}),
		Instances: "2"}
	b := spec.Terms{Placement: labels(map[string]string{"site": "paris"}), Instances: spec.EachMember}
	if got, want := a.Changes(b), []string{"/cluster", "/instances", "/placement/labels/gpu",
		"/placement/labels/site"}; !slices.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
	if !a.Equal(a.Clone()) || a.Equal(b) {
		t.Error("equality is wrong")
	}
	if a.Clone().Placement.Labels["site"] = "rome"; a.Placement.Labels["site"] != "berlin" {
		t.Error("a clone shares its labels")
	}
}

func TestInstanceCounts(t *testing.T) {
	for text, want := range map[spec.Instances]struct {
		several bool
		number  int
	}{"": {false, 1}, "1": {false, 1}, "3": {true, 3}, spec.EachMember: {true, 1}} {
		if text.Several() != want.several || text.Number() != want.number {
			t.Errorf("%q: several %v, number %d", text, text.Several(), text.Number())
		}
	}
}
