package cluster

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// Placement holds the placement terms of a pipeline.
type Placement struct {
	Mode       spec.ClusterMode
	Reason     string         // why it is local; "" when it is not
	Rules      spec.Placement // on which members it may run
	Instances  spec.Instances
	Runs       bool     // it is declared, and should run
	Connectors []string // qualified ids
	Kept       []string // resources on the disk of the host that runs it, informational
}

// SharedPlacement is the place of pipelines that the API declared for all members: the store of the cluster.
const SharedPlacement spec.Places = "cluster"

// IsShared reports whether the API declared the pipeline for all members.
func IsShared(d *spec.Declaration) bool {
	return d.Owner.Kind == spec.OwnerAPI && d.Owner.Places == SharedPlacement
}

// PlacementOf returns the placement terms of a declaration. Two kinds of pipelines are local whatever they declare:
// those that the API declared for this member only, and those with a spool, whose records are on the disk of this host.
func PlacementOf(d *spec.Declaration) Placement {
	t := Placement{Mode: cmp.Or(d.Pipeline.Cluster, spec.ClusterStrict), Rules: d.Pipeline.Placement,
		Instances: d.Pipeline.Instances, Kept: kept(&d.Pipeline),
		Runs: d.Withdrawn.IsZero() && d.Want() == spec.StatusRunning}
	for i := range d.Pipeline.Connectors {
		t.Connectors = append(t.Connectors, d.Pipeline.QualifiedID(d.Pipeline.Connectors[i].ID))
	}
	switch spool := spoolOf(&d.Pipeline); {
	case d.Owner.Kind == spec.OwnerAPI && !IsShared(d) && t.Mode != spec.ClusterLocal && spool == "":
		t.Mode, t.Reason = spec.ClusterLocal, "the API of this agent declared it before it declared pipelines for "+
			"the cluster"
	case spool != "":
		t.Mode, t.Reason = spec.ClusterLocal, fmt.Sprintf("connector %q keeps records on the disk of this host", spool)
	case t.Mode == spec.ClusterLocal:
		t.Reason = "it is declared so"
	}
	if t.Local() {
		t.Instances = ""
	}
	return t
}

// Local reports whether the pipeline has no claim.
func (t Placement) Local() bool { return t.Mode == spec.ClusterLocal }

// Same reports whether an agent with these labels runs the pipeline under t as it does under o.
func (t Placement) Same(o Placement, labels map[string]string) bool {
	return t.Local() == o.Local() && t.Rules.Allow(labels) == o.Rules.Allow(labels)
}

// spoolOf returns the id of a spool or an isolated destination of p, or "" if it has none.
func spoolOf(p *spec.Pipeline) string {
	for i := range p.Connectors {
		if nameOf(p.Connectors[i].Plugin) == "spool" || p.Connectors[i].Isolate != nil {
			return p.Connectors[i].ID
		}
	}
	return ""
}

// onHost maps built-in connectors to the resources that they keep on the host.
var onHost = map[string]string{
	"file":     "files",
	"sqlite":   "a database file",
	"journald": "the journal",
	"spool":    "records",
}

// kept returns the resources of p that exist only on the host that runs it.
func kept(p *spec.Pipeline) (all []string) {
	for i := range p.Connectors {
		c := &p.Connectors[i]
		if what := onHost[nameOf(c.Plugin)]; what != "" {
			all = append(all, fmt.Sprintf("connector %q: %s", c.ID, what))
		}
		if c.Isolate != nil {
			all = append(all, fmt.Sprintf("connector %q: records that wait for it", c.ID))
		}
		all = append(all, remembered(c.Processors)...)
	}
	all = append(all, remembered(p.Processors)...)
	if what := onHost[nameOf(p.DeadLetterQueue.Plugin)]; what != "" {
		all = append(all, "dead-letter queue: "+what)
	}
	return all
}

// remembered returns the state that processors keep on the host.
func remembered(processors []spec.Processor) (all []string) {
	for i := range processors {
		if nameOf(processors[i].Plugin) == "dedupe" {
			all = append(all, fmt.Sprintf("processor %q: the keys it has seen", processors[i].ID))
		}
	}
	return all
}

// nameOf returns the bare name of a plugin, or "" if it cannot be parsed or names an executable.
func nameOf(plugin string) string {
	name, err := pluginname.Parse(plugin)
	if err != nil || name.Kind == pluginname.Standalone {
		return ""
	}
	return name.Name
}

// ParseLabels parses the labels of a member: name=value, separated by commas.
func ParseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("cluster.labels: %q is not of the form name=value", part)
		}
		labels[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return labels, nil
}
