package mqtt

import "strings"

// wrongFilter describes the mistake in a topic filter; "" if it is valid. A topic can contain *, but users who write it
// expect a wildcard.
func wrongFilter(filter string) string {
	_, topic := shared(filter)
	levels := strings.Split(topic, "/")
	for i, level := range levels {
		switch {
		case topic == "" || strings.HasPrefix(filter, "$share/") && topic == filter:
			return "is not a topic filter: use a topic, or $share/GROUP/FILTER"
		case strings.Contains(level, "#") && (level != "#" || i < len(levels)-1):
			return "has # before the end: # must be the last level, and matches all levels below"
		case strings.Contains(level, "+") && level != "+":
			return "has + within a level: + must be a whole level, and matches one level"
		case strings.Contains(level, "*"):
			return "has *, which is not a wildcard of MQTT: + matches one level, and # at the end all levels below"
		}
	}
	return ""
}

// shared returns the group and the topic filter of a shared subscription. For other filters the group is empty.
func shared(filter string) (group, topic string) {
	rest, ok := strings.CutPrefix(filter, "$share/")
	if group, topic, ok2 := strings.Cut(rest, "/"); ok && ok2 {
		return group, topic
	}
	return "", filter
}

// overlap reports whether a topic can match both filters. Servers differ in whether they send a message of such a topic
// once or twice.
func overlap(a, b string) bool {
	_, a = shared(a)
	_, b = shared(b)
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	if isWildcard(x[0]) && strings.HasPrefix(y[0], "$") || isWildcard(y[0]) && strings.HasPrefix(x[0], "$") {
		return false // wildcards do not match topics of the server
	}
	for i := 0; ; i++ {
		switch {
		case i == len(x) && i == len(y):
			return true
		case i == len(x):
			return y[i] == "#"
		case i == len(y):
			return x[i] == "#"
		case x[i] == "#" || y[i] == "#":
			return true
		case x[i] != y[i] && x[i] != "+" && y[i] != "+":
			return false
		}
	}
}

func isWildcard(level string) bool { return level == "+" || level == "#" }
