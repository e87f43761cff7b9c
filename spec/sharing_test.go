package spec

import (
	"maps"
	"strings"
	"testing"
)

type sharedValues map[string]string

// faultText returns the setting and the message of a fault.
func faultText(f *sharingFault) string {
	if f == nil {
		return ""
	}
	return f.Setting + ": " + f.Message
}

func checkFaults(t *testing.T, got, want string, inputs ...any) {
	t.Helper()
	if want == "" && got != "" || !strings.HasPrefix(got, want) {
		t.Errorf("%v: %q, want %q", inputs, got, want)
	}
}

func TestSharedSources(t *testing.T) {
	for _, c := range []struct {
		plugin   string
		settings sharedValues
		want     string
	}{
		{"builtin:kafka@v1", sharedValues{"groupID": "g"}, ""},
		{"kafka", sharedValues{"groupID": "${GROUP}"}, ""},
		{"kafka", nil, ": the instances share the partitions"},
		{"nats", sharedValues{"type": "core", "queue": "q"}, ""},
		{"nats", sharedValues{"type": "core"}, ": instances share messages only in a queue group"},
		{"nats", sharedValues{"queue": "q"}, "type: each instance would read the whole stream"},
		{"mqtt", sharedValues{"topics": "$$share/g/a, $$share/g/b"}, ""},
		{"mqtt", sharedValues{"topics": "$$share/g/a,b"}, "topics: the server distributes"},
		{"mqtt", sharedValues{"topics": "$$share/g/a", "clientID": "c"}, "clientID: the server allows one connection"},
		{"redis", sharedValues{"type": "list", "key": "k"}, ""},
		{"redis", sharedValues{"key": "k"}, "type: each instance would read the whole"},
		{"redis", sharedValues{"type": "list", "processing": "p"}, "processing: each instance needs its own list"},
		{"http", nil, ""},
		{"http", sharedValues{"url": "http://a"}, "url: each instance would poll"},
		{"otlp", nil, ""},
		{"syslog", nil, ""},
		{"prometheus", nil, ""},
		{"prometheus", sharedValues{"mode": "scrape"}, "mode: each instance would scrape all targets"},
		{"socket", nil, ""},
		{"socket", sharedValues{"mode": "${MODE}"}, ""},
		{"socket", sharedValues{"mode": "connect"}, "mode: each instance would receive all"},
		{"websocket", sharedValues{"mode": "listen"}, ""},
		{"websocket", sharedValues{"url": "ws://a"}, "mode: each instance would receive all messages"},
		{"s3", sharedValues{"prefixes": "a/,b/"}, ""},
		{"s3", sharedValues{"prefixes": "${PREFIXES}"}, ""},
		{"s3", sharedValues{"prefixes": "a/"},
			"prefixes: the instances share the work by prefix: 1 prefixes are too few for 2"},
		{"s3", sharedValues{"prefix": "a/"}, ": the instances share the work by prefix: set prefixes"},
		{"postgres", nil, ": only one process can read a replication slot"},
		{"unheard", nil, ": each instance would read all"},
		{"standalone:kafka", sharedValues{"groupID": "g"}, ": connector executables do not declare"},
		{"/opt/kafka", sharedValues{"groupID": "g"}, ": connector executables do not declare"},
		{"${PLUGIN}", nil, ""},
	} {
		checkFaults(t, faultText(checkSharedSource(c.plugin, c.settings, false, "2")), c.want, c.plugin, c.settings)
	}
	checkFaults(t, faultText(checkSharedSource("s3", sharedValues{"prefixes": "a/,b/"}, false, EachMember)),
		": the instances share the work by prefix: set instances to a number")
	checkFaults(t, faultText(checkSharedSource("mqtt", sharedValues{"topics": "$share/g/a"}, true, "2")), "",
		"resolved topics")
	checkFaults(t, faultText(checkSharedSource("mqtt", sharedValues{"topics": "$share/g/a"}, false, "2")), "",
		"a topic with a reference")
}

func TestDivideSource(t *testing.T) {
	values := sharedValues{"prefixes": "a/, b/,c/,d/,e/", "aws.bucket": "b"}
	for instance, want := range map[int]string{1: "a/,c/,e/", 2: " b/,d/"} {
		if got := DivideSource("builtin:s3", values, instance, "2"); got["prefixes"] != want ||
			got["aws.bucket"] != "b" ||
			len(values["prefixes"]) != 15 {
			t.Errorf("instance %d has the settings %v", instance, got)
		}
	}
	for plugin, total := range map[string]Instances{"s3": "1", "kafka": "2", "standalone:s3": "2"} {
		if got := DivideSource(plugin, values, 1, total); !maps.Equal(got, values) {
			t.Errorf("the settings of %s are divided", plugin)
		}
	}
}

func TestSharedDestinationsAndProcessors(t *testing.T) {
	for _, c := range []struct {
		plugin   string
		settings sharedValues
		want     string
	}{
		{"kafka", sharedValues{"exactlyOnce": "true"}, ""},
		{"kafka", sharedValues{"positionsTopic": "p"}, "positionsTopic: each instance needs its own"},
		{"mqtt", sharedValues{"clientID": "c"}, "clientID: each instance needs its own"},
		{"s3", sharedValues{"positionsPrefix": "p/"}, "positionsPrefix: each instance needs its own"},
		{"spool", nil, ": it keeps its records on the disk"},
		{"standalone:own", nil, ""},
	} {
		checkFaults(t, faultText(checkSharedDestination(c.plugin, c.settings, false)), c.want, c.plugin, c.settings)
	}
	for plugin, want := range map[string]string{"builtin:dedupe": ": each instance would remember",
		"aggregate": ": each instance would have its own windows", "field.set": ""} {
		checkFaults(t, faultText(checkSharedProcessor(plugin)), want, plugin)
	}
}
