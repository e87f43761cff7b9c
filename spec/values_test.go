package spec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
	"github.com/google/go-cmp/cmp"
)

func sample() *spec.Pipeline {
	p := &spec.Pipeline{
		ID: "p",
		Connectors: []spec.Connector{
			{ID: "s", Type: spec.TypeSource, Plugin: "g", Settings: map[string]string{"a": "1", "b": "2"}},
			{ID: "d", Type: spec.TypeDestination, Plugin: "l"},
		},
		Processors: []spec.Processor{{ID: "x", Plugin: "f"}, {ID: "y", Plugin: "f"}},
	}
	spec.Normalize(p)
	return p
}

func TestResolve(t *testing.T) {
	lookup := spec.Lookup{Kinds: kinds(
		func(name string) (string, bool) {
			v, ok := map[string]string{"A": "one", "EMPTY": "", "REF": "$A ${A}"}[name]
			return v, ok
		},
		func(path string) (string, error) {
			if path == "/k" {
				return "secret\r\n", nil
			}
			return "", errors.New("no such file")
		},
		func(name string) (string, error) { return name + "\n\n", nil },
	)}
	tests := []struct{ text, want, problem string }{
		{"plain $ 5$ $1", "plain $ 5$ $1", ""},
		{"$A-${A}x", "one-onex", ""},
		{"$$A $${A} $$$A", "$A ${A} $one", ""},
		{"$REF", "$A ${A}", ""},
		{"[$EMPTY]", "[]", ""},
		{"${EMPTY:-d}${NO:-e:f}${A:-g}${NO:-}", "de:fone", ""},
		{"${file:/k}!", "secret!", ""},
		{"${credential:db}", "db\n", ""},
		{"$NO", "", "variable NO is not set"},
		{"${NO}", "", "variable NO is not set"},
		{"${NO:?ask Kim}", "", "ask Kim"},
		{"${EMPTY:?ask Kim}", "", "ask Kim"},
		{"${file:/none}", "", "cannot read file /none: no such file"},
		{"${A", "", "not closed"},
		{"${}", "", "not a reference"},
		{"${credential:../x}", "", "not a reference"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			p := sample()
			p.Connectors[0].Settings["k/v"] = tt.text
			before := p.Clone()
			got, problems := spec.Resolve(p, lookup)
			if diff := cmp.Diff(before, p); diff != "" {
				t.Errorf("Resolve changed its argument:\n%s", diff)
			}
			if tt.problem != "" {
				if got != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, tt.problem) ||
					problems[0].Path != "/connectors/0/settings/k~1v" || problems[0].Pipeline != "p" {
					t.Errorf("want a problem with %q, got %+v", tt.problem, problems)
				}
				return
			}
			if len(problems) > 0 || got.Connectors[0].Settings["k/v"] != tt.want {
				t.Errorf("want %q, got %+v %+v", tt.want, got, problems)
			}
		})
	}
}

func TestResolveReachesEveryText(t *testing.T) {
	p := sample()
	p.Connectors[1].Plugin = "builtin:${A}"
	p.Processors[0].Settings = map[string]string{"k": "$B"}
	p.Connectors[0].Processors = []spec.Processor{{ID: "z", Plugin: "$C", Settings: map[string]string{"k": "${D:-1}"}}}
	p.DeadLetterQueue.Settings = map[string]string{"k": "${file:/e}"}
	want := []spec.Reference{
		{Path: "/connectors/0/processors/0/plugin", Kind: spec.EnvReference, Argument: "C"},
		{Path: "/connectors/0/processors/0/settings/k", Kind: spec.EnvReference, Argument: "D", Optional: true},
		{Path: "/connectors/1/plugin", Kind: spec.EnvReference, Argument: "A"},
		{Path: "/processors/0/settings/k", Kind: spec.EnvReference, Argument: "B"},
		{Path: "/dead-letter-queue/settings/k", Kind: "file", Argument: "/e"},
	}
	if diff := cmp.Diff(want, spec.References(p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	env := func(string) (string, bool) { return "v", true }
	variables := kinds(env, nil, nil)
	variables[0].Early = true
	if _, problems := spec.Resolve(p, spec.Lookup{Kinds: variables, Early: true}); len(problems) != 1 ||
		!strings.Contains(problems[0].Message, "file /e cannot be used here") {
		t.Errorf("a lookup without files read one: %+v", problems)
	}
	bad := func(string) (string, bool) { return "no name", true }
	if _, problems := spec.Resolve(p, spec.Lookup{Kinds: kinds(bad, func(string) (string, error) {
		return "", nil
	}, nil)}); len(problems) != 2 {
		t.Errorf("want both plugin names refused, got %+v", problems)
	}
}

// A pipeline without references is not copied; a single reference is enough, wherever it is.
func TestResolveFindsTheOnlyReference(t *testing.T) {
	lookup := spec.Lookup{Kinds: kinds(func(string) (string, bool) { return "log", true }, nil, nil)}
	literal := func() *spec.Pipeline {
		p := sample()
		for i := range p.Connectors {
			p.Connectors[i].Plugin, p.Connectors[i].Settings = "log", map[string]string{"k": "v"}
			p.Connectors[i].Processors = []spec.Processor{{ID: "z", Plugin: "log",
				Settings: map[string]string{"k": "v"}}}
		}
		p.Processors = []spec.Processor{{ID: "y", Plugin: "log", Settings: map[string]string{"k": "v"}}}
		p.DeadLetterQueue.Plugin, p.DeadLetterQueue.Settings = "log", map[string]string{"k": "v"}
		return p
	}
	p := literal()
	if got, problems := spec.Resolve(p, lookup); got != p || problems != nil {
		t.Errorf("got %p and %+v, want the pipeline itself, %p", got, problems, p)
	}
	for name, refer := range map[string]func(p *spec.Pipeline){
		"plugin":                            func(p *spec.Pipeline) { p.Connectors[1].Plugin = "$A" },
		"setting":                           func(p *spec.Pipeline) { p.Connectors[1].Settings["k"] = "$A" },
		"plugin of a connector's processor": func(p *spec.Pipeline) { p.Connectors[0].Processors[0].Plugin = "$A" },
		"setting of a connector's processor": func(p *spec.Pipeline) {
			p.Connectors[0].Processors[0].Settings["k"] = "$A"
		},
		"plugin of a processor":         func(p *spec.Pipeline) { p.Processors[0].Plugin = "$A" },
		"setting of a processor":        func(p *spec.Pipeline) { p.Processors[0].Settings["k"] = "$A" },
		"plugin of dead-letter queue":   func(p *spec.Pipeline) { p.DeadLetterQueue.Plugin = "$A" },
		"settings of dead-letter queue": func(p *spec.Pipeline) { p.DeadLetterQueue.Settings["k"] = "$A" },
	} {
		p := literal()
		refer(p)
		if got, problems := spec.Resolve(p, lookup); problems != nil || len(spec.References(got)) > 0 ||
			len(spec.References(p)) != 1 {
			t.Errorf("%s: got %+v and %+v", name, got, problems)
		}
	}
}

// digestAndDiffCases are the cases of TestDigestAndDiff.
var digestAndDiffCases = []struct {
	name        string
	edit        func(p *spec.Pipeline)
	digest, run bool // whether they change
	want        []spec.Change
}{
	{"nothing", func(*spec.Pipeline) {}, false, false, nil},
	{"name", func(p *spec.Pipeline) { p.Name = "n"; p.Connectors[0].Name = "n" }, false, false, []spec.Change{
		{Path: "/connectors/s/name", Action: "change", Effect: "none"},
		{Path: "/name", Action: "change", Effect: "none"}}},
	{"description", func(p *spec.Pipeline) { p.Description = "n" }, false, false, []spec.Change{
		{Path: "/description", Action: "change", Effect: "none"}}},
	{"terms of a cluster", func(p *spec.Pipeline) {
		p.Cluster, p.Placement.Labels = spec.ClusterLocal, map[string]string{"site": "berlin"}
	}, false, false, []spec.Change{
		{Path: "/cluster", Action: "change", Effect: "none"}, {Path: "/placement/labels/site", Action: "change",
			Effect: "none"}}},
	{"order of connectors", func(p *spec.Pipeline) {
		p.Connectors[0], p.Connectors[1] = p.Connectors[1], p.Connectors[0]
	}, false, false, nil},
	{"empty settings", func(p *spec.Pipeline) { p.Connectors[1].Settings = map[string]string{} }, false, false, nil},
	{"status", func(p *spec.Pipeline) { p.Status = spec.StatusStopped }, true, false, []spec.Change{
		{Path: "/status", Action: "change", Effect: "in-place"}}},
	{"settings", func(p *spec.Pipeline) {
		p.Connectors[0].Settings = map[string]string{"a": "9", "c": "2"}
	}, true, true, []spec.Change{
		{Path: "/connectors/s/settings/a", Action: "change", Effect: "restart"},
		{Path: "/connectors/s/settings/b", Action: "remove", Effect: "restart"},
		{Path: "/connectors/s/settings/c", Action: "add", Effect: "restart"}}},
	{"plugin", func(p *spec.Pipeline) { p.Connectors[1].Plugin = "k" }, true, true, []spec.Change{
		{Path: "/connectors/d/plugin", Action: "change", Effect: "restart-destination"}}},
	{"destination settings", func(p *spec.Pipeline) {
		p.Connectors[1].Settings = map[string]string{"a": "1"}
	}, true, true, []spec.Change{
		{Path: "/connectors/d/settings/a", Action: "add", Effect: "restart-destination"}}},
	{"plugin of a source", func(p *spec.Pipeline) { p.Connectors[0].Plugin = "k" }, true, true, []spec.Change{
		{Path: "/connectors/s/plugin", Action: "change", Effect: "position-lost"}}},
	{"version of a source's plugin", func(p *spec.Pipeline) {
		p.Connectors[0].Plugin = "any:" + p.Connectors[0].Plugin + "@v2"
	}, true, true, []spec.Change{
		{Path: "/connectors/s/plugin", Action: "change", Effect: "restart"}}},
	{"source id", func(p *spec.Pipeline) {
		p.Connectors[0].ID = "s2"
		p.Connectors[0].Name = "s2"
	}, true, true, []spec.Change{
		{Path: "/connectors/s", Action: "remove", Effect: "position-lost"},
		{Path: "/connectors/s2", Action: "add", Effect: "restart"}}},
	{"destination gone", func(p *spec.Pipeline) { p.Connectors = p.Connectors[:1] }, true, true, []spec.Change{
		{Path: "/connectors/d", Action: "remove", Effect: "restart"}}},
	{"connector type", func(p *spec.Pipeline) { p.Connectors[1].Type = spec.TypeSource }, true, true, []spec.Change{
		{Path: "/connectors/d/type", Action: "change", Effect: "position-lost"}}},
	{"processor settings", func(p *spec.Pipeline) {
		p.Processors[0].Settings = map[string]string{"k": "v"}
	}, true, true, []spec.Change{
		{Path: "/processors/x/settings/k", Action: "add", Effect: "in-place"}}},
	{"processor workers", func(p *spec.Pipeline) {
		p.Processors[0].Workers = 2
		p.Processors[0].Condition = "c"
	}, true, true, []spec.Change{
		{Path: "/processors/x/condition", Action: "change", Effect: "in-place"},
		{Path: "/processors/x/workers", Action: "change", Effect: "in-place"}}},
	{"processor gone, another there", func(p *spec.Pipeline) { p.Processors[0].ID = "z" }, true, true, []spec.Change{
		{Path: "/processors/x", Action: "remove", Effect: "in-place"},
		{Path: "/processors/z", Action: "add", Effect: "in-place"}}},
	{"processor and destination", func(p *spec.Pipeline) {
		p.Processors[0].Condition = "c"
		p.Connectors[1].Plugin = "k"
	}, true, true, []spec.Change{
		{Path: "/connectors/d/plugin", Action: "change", Effect: "restart-destination"},
		{Path: "/processors/x/condition", Action: "change", Effect: "restart"}}},
	{"order of processors", func(p *spec.Pipeline) {
		p.Processors[0], p.Processors[1] = p.Processors[1], p.Processors[0]
	}, true, true, []spec.Change{{Path: "/processors", Action: "change", Effect: "in-place"}}},
	{"routes", func(p *spec.Pipeline) {
		p.Connectors[1].Condition, p.Routing = "c", spec.RouteToFirst
	}, true, true, []spec.Change{
		{Path: "/connectors/d/condition", Action: "change", Effect: "in-place"},
		{Path: "/routing", Action: "change", Effect: "in-place"}}},
	{"default and destination", func(p *spec.Pipeline) {
		p.Connectors[1].Default, p.Connectors[1].Plugin = true, "k"
	}, true, true, []spec.Change{
		{Path: "/connectors/d/default", Action: "change", Effect: "restart"},
		{Path: "/connectors/d/plugin", Action: "change", Effect: "restart-destination"}}},
	{"dead-letter queue", func(p *spec.Pipeline) {
		p.DeadLetterQueue.WindowSize = 5
		p.DeadLetterQueue.Plugin = "q"
	}, true, true, []spec.Change{
		{Path: "/dead-letter-queue/plugin", Action: "change", Effect: "in-place"},
		{Path: "/dead-letter-queue/window-size", Action: "change", Effect: "in-place"}}},
	{
		"whether refusals are tolerated",
		func(p *spec.Pipeline) { p.DeadLetterQueue.WindowSize = 0 },
		true,
		true,
		[]spec.Change{
			{Path: "/dead-letter-queue/window-size", Action: "change", Effect: "restart-destination"}},
	},
}

func TestDigestAndDiff(t *testing.T) {
	tests := digestAndDiffCases
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := sample(), sample()
			tt.edit(b)
			if changed := spec.Digest(a) != spec.Digest(b); changed != tt.digest {
				t.Errorf("digest changed: %v", changed)
			}
			if changed := spec.RunDigest(a) != spec.RunDigest(b); changed != tt.run {
				t.Errorf("run digest changed: %v", changed)
			}
			if diff := cmp.Diff(tt.want, spec.Diff(a, b)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// If the instances divide the settings of a source among them, their number affects the digest.
func TestDigestOfInstances(t *testing.T) {
	for plugin, counts := range map[string]bool{"builtin:s3": true, "builtin:kafka": false} {
		a := &spec.Pipeline{ID: "p", Connectors: []spec.Connector{{ID: "in", Type: spec.TypeSource, Plugin: plugin,
			Settings: map[string]string{"prefixes": "a/,b/"}}}}
		b := a.Clone()
		b.Instances = "1"
		if spec.RunDigest(a) != spec.RunDigest(b) {
			t.Errorf("%s: one instance counts", plugin)
		}
		b.Instances = "2"
		want := spec.EffectNone
		if counts {
			want = spec.EffectRestart
		}
		if changed, effect := spec.RunDigest(a) != spec.RunDigest(b), spec.EffectOf(a, b); changed != counts ||
			effect != want {
			t.Errorf("%s: with two instances the digest changes: %v, and the effect is %s", plugin, changed, effect)
		}
	}
}

// The order of destinations counts only where the first one with a true condition gets a record.
func TestDigestOfRoutes(t *testing.T) {
	for routing, counts := range map[spec.Routing]bool{"": false, spec.RouteToFirst: true} {
		a := &spec.Pipeline{ID: "p", Routing: routing, Connectors: []spec.Connector{
			{ID: "in", Type: spec.TypeSource}, {ID: "x", Type: spec.TypeDestination, Condition: "c"},
			{ID: "y", Type: spec.TypeDestination, Condition: "d"}}}
		b := a.Clone()
		b.Connectors[1], b.Connectors[2] = b.Connectors[2], b.Connectors[1]
		want := spec.EffectNone
		if counts {
			want = spec.EffectInPlace
		}
		if changed, effect := spec.RunDigest(a) != spec.RunDigest(b), spec.EffectOf(a, b); changed != counts ||
			effect != want {
			t.Errorf("routing %q: another order changes the digest: %v, and the effect is %s", routing, changed, effect)
		}
	}
}

// Digests are stored, so another version of the agent must compute the same.
func TestDigestIsStable(t *testing.T) {
	const want = "f9f6bc200a2037162cbc79802a8ce1a6382ff4614476bea0e1ccab2f532f49ab"
	if got := spec.Digest(sample()); got != want {
		t.Errorf("digest is %s, was %s", got, want)
	}
}

func TestValidate(t *testing.T) {
	if problems := spec.Validate(&spec.Pipeline{ID: "new", Status: spec.StatusStopped}); len(problems) != 2 ||
		problems[0].Severity != spec.SeverityWarning {
		t.Errorf("an unfinished pipeline that is stopped should have two warnings: %+v", problems)
	}
	p := sample()
	p.Status, p.Processors[0].Workers, p.Connectors[1].ID = "Stopped", -1, "s"
	var got []string
	for _, problem := range spec.Validate(p) {
		got = append(got, problem.Code+" "+problem.Path)
	}
	want := []string{
		"config.field_invalid /processors/0/workers",
		"config.field_invalid /status",
		"config.id_duplicate /connectors/1/id",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The example of the documentation is a valid file.
func TestDocumentedExample(t *testing.T) {
	_, rest, _ := strings.Cut(string(read(t, "README.md")), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("README.md has no example")
	}
	if f := spec.ParseFile("README.md", []byte(text)); len(f.Problems) > 0 || len(f.Pipelines) != 1 {
		t.Error(report(f))
	}
}

func TestEffectOfIsTheSeverest(t *testing.T) {
	for _, tt := range []struct {
		want spec.Effect
		edit func(p *spec.Pipeline)
	}{
		{spec.EffectNone, func(*spec.Pipeline) {}},
		{spec.EffectInPlace, func(p *spec.Pipeline) { p.Name = "n"; p.DeadLetterQueue.Plugin = "q" }},
		{spec.EffectRestartDestination, func(p *spec.Pipeline) {
			p.DeadLetterQueue.Plugin, p.Connectors[1].Plugin = "q", "k"
		}},
		{spec.EffectRestart, func(p *spec.Pipeline) { p.Connectors[0].Settings = nil; p.Connectors[1].Plugin = "k" }},
		{spec.EffectPositionLost, func(p *spec.Pipeline) { p.Connectors = p.Connectors[1:] }},
	} {
		a, b := sample(), sample()
		tt.edit(b)
		if got := spec.EffectOf(a, b); got != tt.want {
			t.Errorf("effect %s, want %s", got, tt.want)
		}
	}
}

// A change of isolation reopens the destination and changes the digest. A copy does not share it.
func TestIsolation(t *testing.T) {
	isolated := func(i *spec.Isolation) *spec.Pipeline {
		p := sample()
		p.Connectors[1].Isolate = i
		spec.Normalize(p)
		return p
	}
	none, usual := isolated(nil), isolated(&spec.Isolation{})
	changed := []spec.Change{{Path: "/connectors/d/isolate", Action: spec.ActionChange,
		Effect: spec.EffectRestartDestination}}
	tests := []struct {
		a, b *spec.Pipeline
		want []spec.Change
	}{
		{none, usual, changed},
		{usual, none, changed},
		{usual, isolated(&spec.Isolation{Age: "1h"}), changed},
		{usual, isolated(&spec.Isolation{Bytes: 1 << 21}), changed},
		{usual, isolated(&spec.Isolation{Full: spec.IsolationRefuses}), changed},
		{usual, isolated(&spec.Isolation{Bytes: spec.DefaultIsolationBytes, Full: spec.IsolationBlocks}), nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, spec.Diff(tt.a, tt.b)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		same := len(tt.want) == 0
		if same != (spec.Digest(tt.a) == spec.Digest(tt.b)) || same != spec.Equal(tt.a, tt.b) {
			t.Errorf("digests or equality differ from the changes %v", tt.want)
		}
	}
	copied := usual.Clone()
	copied.Connectors[1].Isolate.Bytes = 1
	if usual.Connectors[1].Isolate.Bytes != spec.DefaultIsolationBytes {
		t.Error("a copy shares the isolation")
	}
}
