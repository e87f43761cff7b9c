package nats

import "strings"

// wrongSubject describes the mistake in a subject; "" if it is valid.
func wrongSubject(subject string) string {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case token == "" || strings.ContainsAny(token, " \t\r\n"):
			return "is not a subject: use words without spaces, separated by dots"
		case strings.Contains(token, "*") && token != "*":
			return "has * within a word: * must be a whole word, and matches one word"
		case strings.Contains(token, ">") && (token != ">" || i < len(tokens)-1):
			return "has > before the end: > must be the last word, and matches all following words"
		case strings.HasSuffix(token, "/#") || strings.Contains(token+"/", "/+/"):
			return "has wildcards of MQTT: in NATS, dots separate words, * matches one word, and > at the end " +
				"matches all following words"
		}
	}
	return ""
}

// overlap reports whether a subject can match both a and b. The source would receive its messages twice, and a stream
// refuses the two together.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; i < len(x) && i < len(y); i++ {
		switch {
		case x[i] == ">" || y[i] == ">":
			return true
		case x[i] != y[i] && x[i] != "*" && y[i] != "*":
			return false
		}
	}
	return len(x) == len(y)
}
