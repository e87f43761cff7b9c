package sharing_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec/placement"
	"github.com/conduit-agent/conduit/spec/sharing"
)

type values map[string]string

// message returns what a fault says, with its setting before it.
func message(f *sharing.Fault) string {
	if f == nil {
		return ""
	}
	return f.Setting + ": " + f.Message
}

func checkFaults(t *testing.T, got, want string, of ...any) {
	t.Helper()
	if want == "" && got != "" || !strings.HasPrefix(got, want) {
		t.Errorf("%v: %q, want %q", of, got, want)
	}
}

func TestSources(t *testing.T) {
	for _, c := range []struct {
		plugin   string
		settings values
		want     string
	}{
		{"builtin:kafka@v1", values{"groupID": "g"}, ""},
		{"kafka", values{"groupID": "${GROUP}"}, ""},
		{"kafka", nil, ": the instances share the partitions"},
		{"nats", values{"type": "core", "queue": "q"}, ""},
		{"nats", values{"type": "core"}, ": the instances divide the messages as a queue group"},
		{"nats", values{"queue": "q"}, "type: a stream is read in order"},
		{"mqtt", values{"topics": "$$share/g/a, $$share/g/b"}, ""},
		{"mqtt", values{"topics": "$$share/g/a,b"}, "topics: the server divides"},
		{"mqtt", values{"topics": "$$share/g/a", "clientID": "c"}, "clientID: the server has one connection"},
		{"redis", values{"type": "list", "key": "k"}, ""},
		{"redis", values{"key": "k"}, "type: each instance would read all"},
		{"redis", values{"type": "list", "processing": "p"}, "processing: each instance has a list"},
		{"http", nil, ""},
		{"http", values{"url": "http://a"}, "url: each instance would poll"},
		{"syslog", nil, ""},
		{"s3", values{"prefixes": "a/,b/"}, ""},
		{"s3", values{"prefixes": "${PREFIXES}"}, ""},
		{"s3", values{"prefixes": "a/"}, "prefixes: the instances divide the prefixes: 1 of them are too few for 2"},
		{"s3", values{"prefix": "a/"}, ": the instances divide the prefixes: set prefixes"},
		{"postgres", nil, ": a replication slot has one reader"},
		{"unheard", nil, ": each instance would read all"},
		{"standalone:kafka", values{"groupID": "g"}, ": an executable does not say"},
		{"/opt/kafka", values{"groupID": "g"}, ": an executable does not say"},
		{"${PLUGIN}", nil, ""},
	} {
		checkFaults(t, message(sharing.Source(c.plugin, c.settings, false, "2")), c.want, c.plugin, c.settings)
	}
	checkFaults(t, message(sharing.Source("s3", values{"prefixes": "a/,b/"}, false, placement.Each)), ": the instances divide the prefixes: set instances to a number")
	checkFaults(t, message(sharing.Source("mqtt", values{"topics": "$share/g/a"}, true, "2")), "", "resolved topics")
	checkFaults(t, message(sharing.Source("mqtt", values{"topics": "$share/g/a"}, false, "2")), "", "a topic with a reference")
}

func TestDivide(t *testing.T) {
	values := values{"prefixes": "a/, b/,c/,d/,e/", "aws.bucket": "b"}
	for instance, want := range map[int]string{1: "a/,c/,e/", 2: " b/,d/"} {
		if got := sharing.Divide("builtin:s3", values, instance, "2"); got["prefixes"] != want || got["aws.bucket"] != "b" || len(values["prefixes"]) != 15 {
			t.Errorf("instance %d has the settings %v", instance, got)
		}
	}
	for plugin, of := range map[string]placement.Instances{"s3": "1", "kafka": "2", "standalone:s3": "2"} {
		if got := sharing.Divide(plugin, values, 1, of); !maps.Equal(got, values) {
			t.Errorf("the settings of %s are divided", plugin)
		}
	}
}

func TestDestinationsAndProcessors(t *testing.T) {
	for _, c := range []struct {
		plugin   string
		settings values
		want     string
	}{
		{"kafka", values{"exactlyOnce": "true"}, ""},
		{"kafka", values{"positionsTopic": "p"}, "positionsTopic: each instance needs one"},
		{"mqtt", values{"clientID": "c"}, "clientID: each instance needs one"},
		{"s3", values{"positionsPrefix": "p/"}, "positionsPrefix: each instance needs one"},
		{"spool", nil, ": its records are on the disk"},
		{"standalone:own", nil, ""},
	} {
		checkFaults(t, message(sharing.Destination(c.plugin, c.settings, false)), c.want, c.plugin, c.settings)
	}
	for plugin, want := range map[string]string{"builtin:dedupe": ": each instance would remember", "aggregate": ": each instance would have windows", "field.set": ""} {
		checkFaults(t, message(sharing.Processor(plugin)), want, plugin)
	}
}
