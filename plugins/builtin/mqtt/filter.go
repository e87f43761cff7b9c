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
			return "is no topic filter: want a topic, or $share/GROUP/FILTER"
		case strings.Contains(level, "#") && (level != "#" || i < len(levels)-1):
			return "has # that is not the last level: it stands alone there, for all levels below"
		case strings.Contains(level, "+") && level != "+":
			return "has + that is not a whole level: it stands alone, for one level"
		case strings.Contains(level, "*"):
			return "has *, which MQTT does not know: + stands for one level, # at the end for all levels below"
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
