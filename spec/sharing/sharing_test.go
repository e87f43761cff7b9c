package sharing_test

import (
	"strings"
	"testing"

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
		{"postgres", nil, ": a replication slot has one reader"},
		{"unheard", nil, ": each instance would read all"},
		{"standalone:kafka", values{"groupID": "g"}, ": an executable does not say"},
		{"/opt/kafka", values{"groupID": "g"}, ": an executable does not say"},
		{"${PLUGIN}", nil, ""},
	} {
		checkFaults(t, message(sharing.Source(c.plugin, c.settings, false)), c.want, c.plugin, c.settings)
	}
	checkFaults(t, message(sharing.Source("mqtt", values{"topics": "$share/g/a"}, true)), "", "resolved topics")
	checkFaults(t, message(sharing.Source("mqtt", values{"topics": "$share/g/a"}, false)), "", "a topic with a reference")
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
