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
			Message: "an executable does not say whether its instances divide the records, so each might read all " +
				"of them"}
	}
	why := unsharedSources[name]
	if why == "" {
		why = "each instance would read all of the records"
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
				"a stream is read in order by a consumer of its own: " +
					"read the subjects with type core and a queue, or give each part of them a pipeline"}
		case known && queue == "":
			return &sharingFault{"", "the instances divide the messages as a queue group: set queue"}
		}
		return nil
	},
	"mqtt": func(s pluginSettings) *sharingFault {
		if s.given("clientID") {
			return &sharingFault{"clientID",
				"the server has one connection of each client, and every instance is one: leave clientID out"}
		}
		topics, known := s.get("topics")
		for topic := range strings.SplitSeq(topics, ",") {
			if known && !strings.HasPrefix(strings.TrimSpace(topic), "$share/") {
				return &sharingFault{"topics",
					"the server divides the messages of shared subscriptions only: write each topic as " +
						"$$share/GROUP/TOPIC"}
			}
		}
		return nil
	},
	"redis": func(s pluginSettings) *sharingFault {
		switch {
		case s.other("type", "list"):
			return &sharingFault{"type",
				"each instance would read all of a stream, or of the channels: only the elements of a list are divided"}
		case s.given("processing"):
			return &sharingFault{"processing",
				"each instance has a list of its own for elements that are not acknowledged: leave processing out"}
		}
		return nil
	},
	"http": func(s pluginSettings) *sharingFault {
		if s.given("url") {
			return &sharingFault{"url",
				"each instance would poll all of the records: only requests that are received are divided, by what " +
					"sends them"}
		}
		return nil
	},
	"s3": func(s pluginSettings) *sharingFault {
		const leave = "the instances divide the prefixes: "
		list, known := s.get(prefixesSetting)
		switch n, all := s.instances.Number(), strings.Split(list, ","); {
		case s.instances == EachMember:
			return &sharingFault{"", leave + "set instances to a number of them"}
		case known && list == "":
			return &sharingFault{"", leave + "set prefixes, one or more for each instance"}
		case known && len(all) < n:
			return &sharingFault{prefixesSetting,
				fmt.Sprintf("%s%d of them are too few for %d instances", leave, len(all), n)}
		}
		return nil
	},
	// Each instance receives the messages that are sent to its host.
	"syslog": func(pluginSettings) *sharingFault { return nil },
}

// prefixesSetting is the setting of s3 that its instances divide.
const prefixesSetting = "prefixes"

// dividedByNumber reports whether the part of a source that an instance reads depends on the number of instances,
// because the settings are divided among them. Other sources divide their records themselves.
func dividedByNumber(plugin string, values map[string]string) bool {
	return bareName(plugin) == "s3" && values[prefixesSetting] != ""
}

// DivideSource returns the settings with which instance, counted from 1, reads its part of a source.
func DivideSource(plugin string, values map[string]string, instance int, of Instances) map[string]string {
	if !dividedByNumber(plugin, values) || !of.Several() {
		return values
	}
	var own []string
	for i, prefix := range strings.Split(values[prefixesSetting], ",") {
		if i%of.Number() == instance-1 {
			own = append(own, prefix)
		}
	}
	return withSetting(values, prefixesSetting, strings.Join(own, ","))
}

// numbered adds the number of instances to the settings of a source that reads a different part with a different
// number.
func numbered(plugin string, values map[string]string, of Instances) map[string]string {
	if !dividedByNumber(plugin, values) || !of.Several() {
		return values
	}
	return withSetting(values, "/instances", string(of)) // no setting has a slash
}

func withSetting(values map[string]string, name, value string) map[string]string {
	values = maps.Clone(values)
	values[name] = value
	return values
}

// unsharedSources has the reasons why other built-in sources cannot divide their records, by name.
var unsharedSources = map[string]string{
	"postgres":  "a replication slot has one reader",
	"mysql":     "the binary log is read in order, by one reader",
	"file":      "what is on the disk of a host is read there",
	"sqlite":    "what is on the disk of a host is read there",
	"journald":  "the journal of a host is read there: use cluster: local, with which every member reads its own",
	"spool":     "what is on the disk of a host is read there",
	"generator": "each instance would generate all of the records",
}

// checkSharedDestination returns the reason why several instances cannot write to a destination at the same time, or
// nil if they can as far as the settings are known.
func checkSharedDestination(plugin string, values map[string]string, resolved bool) *sharingFault {
	s, name := pluginSettings{values: values, resolved: resolved}, bareName(plugin)
	if name == "spool" {
		return &sharingFault{Message: "its records are on the disk of the host that wrote them"}
	}
	for _, setting := range ownSettings[name] {
		if s.given(setting) {
			return &sharingFault{setting, "each instance needs one of its own: leave " + setting +
				" out, and it is made of the ids of connector and instance"}
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
		return &sharingFault{Message: "each instance would remember the keys that it saw itself, and let the others' " +
			"through"}
	case "aggregate":
		return &sharingFault{Message: "each instance would have windows of its own, with a part of the records each"}
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
