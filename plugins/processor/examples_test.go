package processor_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

var update = flag.Bool("update", false, "write the pages of the processors into README.md")

func exampleRecord(t *testing.T, e processor.ExampleRecord) record.Record {
	t.Helper()
	r := record.Record{Position: record.Position("1"), Operation: record.OperationCreate,
		Metadata: record.NewMetadata(e.Metadata)}
	if e.Operation != "" {
		var err error
		if r.Operation, err = record.ParseOperation(e.Operation); err != nil {
			t.Fatal(err)
		}
	}
	r.Key, r.Before, r.After = exampleData(t, e.Key), exampleData(t, e.Before), exampleData(t, e.After)
	return r
}

func exampleData(t *testing.T, v any) record.Data {
	t.Helper()
	switch v := v.(type) {
	case nil:
		return record.Data{}
	case string:
		return record.Raw([]byte(v))
	case map[string]any:
		m, _ := record.FromYAML(v).(map[string]any)
		return record.Structured(m)
	}
	t.Fatalf("an example has a %T for data", v)
	return record.Data{}
}

func examplesOf(t *testing.T, name string) []processor.Example {
	t.Helper()
	all, err := processor.Examples(name)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s has %d examples: %v", name, len(all), err)
	}
	return all
}

// TestExamples runs all examples except those that need a service. For these only the settings are checked;
// TestServices runs their processors.
func TestExamples(t *testing.T) {
	for _, plugin := range processors.All() {
		for _, e := range examplesOf(t, plugin.Name) {
			t.Run(plugin.Name+"/"+e.Title, func(t *testing.T) {
				o, declared := declareExample(t, plugin, e)
				if !e.NoRun {
					runExample(t, o, declared, e)
				} else if _, ok := services[plugin.Name]; !ok {
					t.Error("TestServices does not have the service that it needs")
				}
			})
		}
	}
}

// declareExample returns the processor of an example, after checking its settings.
func declareExample(t *testing.T, plugin sdk.ProcessorPlugin,
	e processor.Example) (processor.Options, []spec.Processor) {
	t.Helper()
	schemas, ctx := &schema.Memory{}, context.Background()
	for i, text := range e.Schemas {
		if _, err := schemas.Create(ctx, fmt.Sprintf("example%d", i), schema.TypeAvro, text); err != nil {
			t.Fatal(err)
		}
	}
	o := processor.Options{Registry: &processor.Registry{Builtin: []sdk.ProcessorPlugin{plugin}}, Schemas: schemas,
		StateDir: t.TempDir()}
	declared := []spec.Processor{{ID: "example", Plugin: plugin.Name, Settings: e.Settings, Condition: e.Condition}}
	if problems := o.Registry.Check(ctx, "", declared); len(problems) > 0 {
		t.Fatalf("the declaration has problems: %v", problems)
	}
	return o, declared
}

func runExample(t *testing.T, o processor.Options, declared []spec.Processor, e processor.Example) {
	t.Helper()
	ctx := context.Background()
	c, err := processor.Open(ctx, "p", declared, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Teardown(ctx); err != nil {
			t.Error(err)
		}
	}()
	for i, r := range e.Before {
		if _, err := c.Process(ctx, -i, []record.Record{exampleRecord(t, r)}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := c.Process(ctx, 1, []record.Record{exampleRecord(t, e.In)})
	if err != nil {
		t.Fatal(err)
	}
	compareExample(t, e, out)
}

func compareExample(t *testing.T, e processor.Example, out connector.Outcome) {
	t.Helper()
	if e.Error != "" {
		if len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(), e.Error) {
			t.Errorf("refused %v, want %q", out.Refused, e.Error)
		}
		return
	}
	if len(out.Refused) > 0 {
		t.Fatalf("refused: %v", out.Refused[0].Err)
	}
	got, want := []record.Record{}, []record.Record{}
	got = append(got, out.Records...)
	for _, emitted := range out.Emitted {
		got = append(got, emitted.Records...)
	}
	for _, r := range e.Out {
		want = append(want, exampleRecord(t, r))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// The examples set every setting at least once. Examples that need a service are exempt, because TestServices sets all
// of their settings.
func TestExamplesSetEverySetting(t *testing.T) {
	for _, plugin := range processors.All() {
		if _, ok := services[plugin.Name]; ok {
			continue
		}
		set := map[string]string{}
		for _, e := range examplesOf(t, plugin.Name) {
			if e.NoRun {
				t.Errorf("%s/%s needs a service that TestServices does not have", plugin.Name, e.Title)
			}
			maps.Copy(set, e.Settings)
		}
		wantEverySetting(t, plugin, set)
	}
}

// wantEverySetting expects a setting for every parameter of a plugin, and no others.
func wantEverySetting(t *testing.T, plugin sdk.ProcessorPlugin, set map[string]string) {
	t.Helper()
	for name := range plugin.New().Parameters() {
		prefix, isMap := strings.CutSuffix(name, "*")
		isSet := func(s string) bool { return s == name || isMap && strings.HasPrefix(s, prefix) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(set)), isSet) {
			t.Errorf("%s: nothing sets %s", plugin.Name, name)
		}
	}
}

func TestEveryExampleIsOfAProcessor(t *testing.T) {
	for _, name := range processor.ExampleNames() {
		if !slices.ContainsFunc(processors.All(), func(p sdk.ProcessorPlugin) bool { return p.Name == name }) {
			t.Errorf("there is no processor %s", name)
		}
	}
}
