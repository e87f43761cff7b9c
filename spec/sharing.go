package spec

import (
	"fmt"
	"maps"
	"strings"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/schemas"
)

// sharingFault describes why several instances cannot run, and the remedy.
type sharingFault struct {
	Setting string // the wrong setting; "" for the plugin or a missing setting
	Message string
}

// At returns the JSON pointer of the mistake, relative to the connector, processor or dead-letter queue.
func (f *sharingFault) At() string {
	if f.Setting == "" {
		return "/plugin"
	}
	return "/settings/" + schemas.EscapePointer(f.Setting)
}

// pluginSettings are the settings of a plugin.
type pluginSettings struct {
	values    map[string]string
	resolved  bool      // values contain no references
	instances Instances // of the pipeline
}

// get returns the value of a setting. The value is unknown while it contains references.
func (s pluginSettings) get(name string) (value string, known bool) {
	if value = s.values[name]; s.resolved {
		return value, true
	}
	return LiteralText(value)
}

// other reports whether a setting is known to differ from value.
func (s pluginSettings) other(name, value string) bool {
	has, known := s.get(name)
	return known && has != value
}

// given reports whether a setting is known and not empty.
func (s pluginSettings) given(name string) bool { return s.other(name, "") }

// checkSharedSource returns the reason why so many instances cannot read a source at the same time, or nil if they can
// as far as the settings are known. resolved settings contain no references.
func checkSharedSource(plugin string, values map[string]string, resolved bool, instances Instances) *sharingFault {
	s := pluginSettings{values, resolved, instances}
	name := bareName(plugin)
	switch divides := sharedSources[name]; {
	case divides != nil:
		return divides(s)
	case strings.Contains(plugin, "$") && !resolved:
		return nil
	case name == "":
		return &sharingFault{
			Message: "connector executables do not declare whether instances share the records, so each might read " +
				"all records"}
	}
	why := unsharedSources[name]
	if why == "" {
		why = "each instance would read all records"
	}
	return &sharingFault{Message: why}
}

// sharedSources are the built-in sources that can divide their records, by name.
var sharedSources = map[string]func(pluginSettings) *sharingFault{
	"kafka": func(s pluginSettings) *sharingFault {
		if _, known := s.get("groupID"); known && !s.given("groupID") {
			return &sharingFault{"", "the instances share the partitions as members of a group: set groupID"}
		}
		return nil
	},
	"nats": func(s pluginSettings) *sharingFault {
		queue, known := s.get("queue")
		switch {
		case s.other("type", "core"):
			return &sharingFault{"type",
				"each instance would read the whole stream with its own consumer: use type core with a queue, or one " +
					"pipeline for each part of the subjects"}
		case known && queue == "":
			return &sharingFault{"", "instances share messages only in a queue group: set queue"}
		}
		return nil
	},
	"mqtt": func(s pluginSettings) *sharingFault {
		if s.given("clientID") {
			return &sharingFault{"clientID",
				"the server allows one connection per client id, and each instance needs its own: remove clientID"}
		}
		topics, known := s.get("topics")
		for topic := range strings.SplitSeq(topics, ",") {
			if known && !strings.HasPrefix(strings.TrimSpace(topic), "$share/") {
				return &sharingFault{"topics",
					"the server distributes only the messages of shared subscriptions: write each topic as " +
						"$$share/GROUP/TOPIC"}
			}
		}
		return nil
	},
	"redis": func(s pluginSettings) *sharingFault {
		switch {
		case s.other("type", "list"):
			return &sharingFault{"type",
				"each instance would read the whole stream or all channels: only type list distributes its elements"}
		case s.given("processing"):
			return &sharingFault{"processing",
				"each instance needs its own list of unacknowledged elements: remove processing"}
		}
		return nil
	},
	"http": func(s pluginSettings) *sharingFault {
		if s.given("url") {
			return &sharingFault{"url",
				"each instance would poll all records: remove url, and let a load balancer distribute requests to " +
					"the instances"}
		}
		return nil
	},
	"s3": func(s pluginSettings) *sharingFault {
		const leave = "the instances share the work by prefix: "
		list, known := s.get(prefixesSetting)
		switch n, all := s.instances.Number(), strings.Split(list, ","); {
		case s.instances == EachMember:
			return &sharingFault{"", leave + "set instances to a number"}
		case known && list == "":
			return &sharingFault{"", leave + "set prefixes, one or more for each instance"}
		case known && len(all) < n:
			return &sharingFault{prefixesSetting,
				fmt.Sprintf("%s%d prefixes are too few for %d instances", leave, len(all), n)}
		}
		return nil
	},
	"socket": func(s pluginSettings) *sharingFault {
		if mode, known := s.get("mode"); known && mode == "connect" {
			return &sharingFault{"mode",
				"each instance would receive all records: use mode listen, and let a load balancer distribute " +
					"connections to the instances"}
		}
		return nil
	},
	// Each instance receives the messages to its host.
	"otlp":   func(pluginSettings) *sharingFault { return nil },
	"syslog": func(pluginSettings) *sharingFault { return nil },
	"prometheus": func(s pluginSettings) *sharingFault {
		if mode, known := s.get("mode"); known && mode == "scrape" {
			return &sharingFault{"mode",
				"each instance would scrape all targets: use mode receive, and let a load balancer distribute requests " +
					"to the instances"}
		}
		return nil
	},
	"websocket": func(s pluginSettings) *sharingFault {
		if s.other("mode", "listen") {
			return &sharingFault{"mode",
				"each instance would receive all messages: use mode listen, and let a load balancer distribute " +
					"connections to the instances"}
		}
		return nil
	},
}

// prefixesSetting is the setting of s3 that its instances divide.
const prefixesSetting = "prefixes"

// dividedByNumber reports whether the part of a source that an instance reads depends on the number of instances,
// because the settings are divided among them. Other sources divide their records themselves.
func dividedByNumber(plugin string, values map[string]string) bool {
	return bareName(plugin) == "s3" && values[prefixesSetting] != ""
}

// DivideSource returns the settings with which instance, counted from 1, reads its part of a source.
func DivideSource(plugin string, values map[string]string, instance int, total Instances) map[string]string {
	if !dividedByNumber(plugin, values) || !total.Several() {
		return values
	}
	var own []string
	for i, prefix := range strings.Split(values[prefixesSetting], ",") {
		if i%total.Number() == instance-1 {
			own = append(own, prefix)
		}
	}
	return withSetting(values, prefixesSetting, strings.Join(own, ","))
}

// numbered adds the number of instances to the settings of a source that reads a different part with a different
// number.
func numbered(plugin string, values map[string]string, total Instances) map[string]string {
	if !dividedByNumber(plugin, values) || !total.Several() {
		return values
	}
	return withSetting(values, "/instances", string(total)) // no setting has a slash
}

func withSetting(values map[string]string, name, value string) map[string]string {
	values = maps.Clone(values)
	values[name] = value
	return values
}

// unsharedSources has the reasons why other built-in sources cannot divide their records, by name.
var unsharedSources = map[string]string{
	"postgres":  "only one process can read a replication slot",
	"mysql":     "the binary log is read in order by one reader",
	"file":      "it reads the disk of a host",
	"sqlite":    "it reads the disk of a host",
	"journald":  "it reads the journal of a host: use cluster: local, so that every member reads its own",
	"spool":     "it reads the disk of a host",
	"generator": "each instance would generate all records",
}

// checkSharedDestination returns the reason why several instances cannot write to a destination at the same time, or
// nil if they can as far as the settings are known.
func checkSharedDestination(plugin string, values map[string]string, resolved bool) *sharingFault {
	s, name := pluginSettings{values: values, resolved: resolved}, bareName(plugin)
	if name == "spool" {
		return &sharingFault{Message: "it keeps its records on the disk of one host"}
	}
	for _, setting := range ownSettings[name] {
		if s.given(setting) {
			return &sharingFault{setting, "each instance needs its own: remove " + setting +
				", and it is derived from the ids of the connector and the instance"}
		}
	}
	return nil
}

// ownSettings has the settings whose values only one writer can use, by name of the built-in destination.
var ownSettings = map[string][]string{
	"kafka": {"transactionalID", "positionsTopic"},
	"mqtt":  {"clientID"},
	"s3":    {"positionsPrefix"},
}

// checkSharedProcessor returns the reason why several instances cannot use a processor, or nil if they can.
func checkSharedProcessor(plugin string) *sharingFault {
	switch bareName(plugin) {
	case "dedupe":
		return &sharingFault{Message: "each instance would remember only its own keys, and let the others' through"}
	case "aggregate":
		return &sharingFault{Message: "each instance would have its own windows, each with a part of the records"}
	}
	return nil
}

// bareName returns the bare name of a plugin, "" if it is invalid or names an executable.
func bareName(plugin string) string {
	name, err := pluginname.Parse(plugin)
	if err != nil || name.Kind == pluginname.Standalone || name.IsPath() {
		return ""
	}
	return name.Name
}
