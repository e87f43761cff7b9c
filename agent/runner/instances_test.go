package runner_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// shared replaces the sources of Kafka and S3, whose instances share some settings. It refuses several prefixes.
type shared struct{ sdk.SourceBase }

func (*shared) Parameters() sdk.Parameters {
	return sdk.Parameters{"servers": {}, "topics": {}, "groupID": {}, "prefixes": {}, "aws.bucket": {}, "aws.region": {}}
}

func (*shared) Configure(_ context.Context, settings map[string]string) error {
	if prefixes := settings["prefixes"]; strings.Contains(prefixes, ",") {
		return fmt.Errorf("prefixes are %s", prefixes)
	}
	return nil
}

func (*shared) Open(context.Context, record.Position) error { return nil }

func (*shared) Read(context.Context) ([]record.Record, error) { return nil, sdk.ErrBackoffRetry }

// Only the values of references at the start show whether several instances can run.
func TestRefusedInstances(t *testing.T) {
	for name, c := range map[string]struct {
		plugin, group, want string
	}{
		"a group without a name": {"builtin:kafka", "${GROUP_OF_TEST}",
			"the instances share the partitions as members of a group"},
		"another plugin": {"${PLUGIN_OF_TEST}", "g", "each instance would generate all records"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GROUP_OF_TEST", "")
			t.Setenv("PLUGIN_OF_TEST", "generator")
			d := declared(filepath.Join(t.TempDir(), "out"), "false")
			d.Pipeline.Instances = "2"
			d.Pipeline.Connectors[0] = spec.Connector{ID: "in", Type: spec.TypeSource, Plugin: c.plugin,
				Settings: map[string]string{"servers": "127.0.0.1:1", "topics": "t", "groupID": c.group}}
			if problems := spec.CheckInstances(&d.Pipeline, false); len(problems) > 0 {
				t.Fatalf("it is refused where the references are not known: %v", problems)
			}
			_, err := newRunner(t).Prepare(t.Context(), d)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// An instance gets its part of the settings that are divided among instances.
func TestDividedSettings(t *testing.T) {
	d := declared(filepath.Join(t.TempDir(), "out"), "false")
	d.Pipeline.Instances = "2"
	d.Pipeline.Connectors[0] = spec.Connector{ID: "in", Type: spec.TypeSource, Plugin: "builtin:s3",
		Settings: map[string]string{"prefixes": "a/,a/b/", "aws.bucket": "b", "aws.region": "r"}}
	for instance, want := range map[int]string{
		0: "prefixes are a/,a/b/", // this agent is in no cluster
		1: "", 2: "",
		3: "cannot run instance 3 of pipeline p: it now has 2",
	} {
		r := newRunner(t)
		r.Instance = func(string) int { return instance }
		run, err := r.Prepare(t.Context(), d)
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("instance %d: error %v, want %q", instance, err, want)
		}
		if err == nil {
			run.Discard(t.Context())
		}
	}
}
