package clustering_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/spec"
)

// An agent outside a cluster runs everything itself, once.
func TestAlone(t *testing.T) {
	var a clustering.Member = clustering.Alone{}
	a.Changed()
	if err := a.Joined(); err != nil {
		t.Errorf("not joined: %v", err)
	}
	spool := &spec.Pipeline{ID: "p", Connectors: []spec.Connector{{ID: "c", Plugin: "builtin:spool"}}}
	if problems := a.Problems(spool); problems != nil {
		t.Errorf("problems: %v", problems)
	}
	if a.KeepsConnectors("p") || a.Unplaced("p") {
		t.Error("a pipeline is left to another agent")
	}
	if p, terms, refused := a.Assignment("p"), a.Terms("p"), a.DeadLettersElsewhere("p"); p != nil || terms != nil ||
		refused != nil {
		t.Errorf("got %v, %v, %v", p, terms, refused)
	}
	several := &spec.Declaration{Pipeline: spec.Pipeline{ID: "p", Terms: spec.Terms{Instances: "2"}}}
	if i := a.Instances(several); i == nil || i.Declared != "2" || len(i.Running) != 0 ||
		!strings.Contains(i.Message, "this agent runs only one") {
		t.Errorf("instances: %+v", i)
	}
	if i := a.Instances(&spec.Declaration{}); i != nil {
		t.Errorf("instances of a pipeline that has one: %+v", i)
	}
}
