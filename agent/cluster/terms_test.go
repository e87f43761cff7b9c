package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/spec"
)

// TestOf checks that pipelines with local resources are local, and that others follow their file.
func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		owner    spec.OwnerKind
		plugin   string
		declared spec.ClusterMode
		want     spec.ClusterMode
	}{
		"a file":               {spec.OwnerFile, "builtin:log", "", spec.ClusterStrict},
		"a relaxed one":        {spec.OwnerFile, "builtin:log", spec.ClusterRelaxed, spec.ClusterRelaxed},
		"a local one":          {spec.OwnerFile, "builtin:log", spec.ClusterLocal, spec.ClusterLocal},
		"the API":              {spec.OwnerAPI, "builtin:log", spec.ClusterStrict, spec.ClusterLocal},
		"a spool":              {spec.OwnerFile, "builtin:spool", "", spec.ClusterLocal},
		"any spool":            {spec.OwnerFile, "spool", spec.ClusterRelaxed, spec.ClusterLocal},
		"a spool of a version": {spec.OwnerFile, "builtin:spool@v1.0.0", "", spec.ClusterLocal},
		"another executable":   {spec.OwnerFile, "standalone:spooler", "", spec.ClusterStrict},
	} {
		d := &spec.Declaration{Owner: spec.Owner{Kind: c.owner}, Pipeline: spec.Pipeline{
			Connectors: []spec.Connector{{Plugin: "builtin:generator"}, {ID: "out", Plugin: c.plugin}},
			Terms:      spec.Terms{Cluster: c.declared}}}
		got := cluster.PlacementOf(d)
		if got.Mode != c.want || got.Local() != (got.Reason != "") {
			t.Errorf("%s: %+v, want %s and a reason if it is local", name, got, c.want)
		}
	}
}

// TestOfIsolated checks that a pipeline with an isolated destination stays on its host.
func TestOfIsolated(t *testing.T) {
	d := &spec.Declaration{Owner: spec.Owner{Kind: spec.OwnerFile}, Pipeline: spec.Pipeline{
		Connectors: []spec.Connector{{ID: "in", Plugin: "builtin:generator"}, {ID: "out", Plugin: "builtin:log",
			Isolate: &spec.Isolation{}}}}}
	got := cluster.PlacementOf(d)
	if got.Mode != spec.ClusterLocal || !strings.Contains(got.Reason, `"out"`) ||
		!slices.Equal(got.Kept, []string{`connector "out": records that wait for it`}) {
		t.Errorf("the placement is %+v", got)
	}
}

// TestKept checks the list of a pipeline's resources on the disk of the host.
func TestKept(t *testing.T) {
	dedupe := []spec.Processor{{ID: "once", Plugin: "dedupe"}}
	p := spec.Pipeline{
		Connectors: []spec.Connector{{ID: "in", Plugin: "builtin:file@v1", Processors: dedupe},
			{ID: "out", Plugin: "builtin:log"}},
		Processors:      []spec.Processor{{ID: "all", Plugin: "builtin:dedupe"}, {ID: "upper", Plugin: "field.set"}},
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:file"},
	}
	want := []string{`connector "in": files`, `processor "once": the keys it has seen`,
		`processor "all": the keys it has seen`, "dead-letter queue: files"}
	if got := cluster.PlacementOf(&spec.Declaration{Pipeline: p}).Kept; !slices.Equal(got, want) {
		t.Errorf("kept are %q, want %q", got, want)
	}
}

func TestSame(t *testing.T) {
	berlin := cluster.Placement{Mode: spec.ClusterStrict,
		Rules: spec.Placement{Labels: map[string]string{"site": "berlin"}}}
	local := cluster.Placement{Mode: spec.ClusterLocal}
	there := map[string]string{"site": "berlin"}
	if !berlin.Same(cluster.Placement{Mode: spec.ClusterRelaxed}, there) || berlin.Same(cluster.Placement{}, nil) ||
		berlin.Same(local, there) {
		t.Error("what differs for an agent is not told apart")
	}
}

// TestProblems checks that a member runs a pipeline with state on its host only if the file says whether that state
// stays or is lost.
func TestProblems(t *testing.T) {
	const strict, relaxed, local = spec.ClusterStrict, spec.ClusterRelaxed, spec.ClusterLocal
	for text, wrong := range map[string][]spec.ClusterMode{ // refused modes
		"connectors: [{id: in, type: source, plugin: 'builtin:generator'}, {id: out, type: destination, " +
			"plugin: 'builtin:log'}], processors: [{id: one, plugin: aggregate, settings: {window: 1s}}]": nil,
		"connectors: [{id: in, type: source, plugin: 'builtin:generator'}, {id: out, type: destination, " +
			"plugin: 'builtin:log'}], processors: [{id: one, plugin: 'builtin:dedupe'}]": {""},
		"connectors: [{id: in, type: source, plugin: 'builtin:generator', processors: [{id: one, plugin: dedupe}]}, " +
			"{id: out, type: destination, plugin: 'builtin:log'}]": {""},
		"connectors: [{id: in, type: source, plugin: 'builtin:generator'}, {id: one, type: destination, " +
			"plugin: 'builtin:spool'}]": {"", strict, relaxed},
		"connectors: [{id: in, type: source, plugin: 'builtin:generator'}, {id: one, type: destination, " +
			"plugin: 'builtin:log', isolate: {}}, {id: two, type: destination, plugin: 'builtin:log'}]": {"", strict,
			relaxed},
		"connectors: [{id: one, type: source, plugin: spool}, {id: out, type: destination, " +
			"plugin: 'builtin:log'}]": {"", strict, relaxed},
	} {
		for _, mode := range []spec.ClusterMode{"", strict, relaxed, local} {
			says := ""
			if mode != "" {
				says = "cluster: " + string(mode) + ", "
			}
			f := cluster.ProblemsInFile("f.yaml", spec.ParseFile("f.yaml",
				[]byte("version: \"2.2\"\npipelines:\n  - {id: p, status: running, "+says+text+"}\n")))
			if !slices.Contains(wrong, mode) {
				if len(f.Pipelines) != 1 || len(f.Invalid) != 0 || len(f.Problems) != 0 {
					t.Errorf("cluster %q, %s: %+v", mode, text, f)
				}
				continue
			}
			if len(f.Pipelines) != 0 || !slices.Equal(f.Invalid, []string{"p"}) || len(f.Problems) != 1 {
				t.Errorf("cluster %q, %s: %+v, want one problem", mode, text, f)
				continue
			}
			if p := f.Problems[0]; p.Severity != spec.SeverityError || p.Line != 3 || p.Column == 0 ||
				p.File != "f.yaml" || p.Pipeline != "p" ||
				!strings.Contains(p.Message, `"one"`) || !strings.Contains(p.Message, "cluster: local") {
				t.Errorf("cluster %q, %s: the problem is %+v", mode, text, p)
			}
		}
	}
}
