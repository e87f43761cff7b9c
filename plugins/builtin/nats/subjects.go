package nats

import "strings"

// wrongSubject describes the mistake in a subject; "" if it is valid.
func wrongSubject(subject string) string {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case token == "" || strings.ContainsAny(token, " \t\r\n"):
			return "is no subject: want words without spaces and with dots between them"
		case strings.Contains(token, "*") && token != "*":
			return "has * that is not a whole word: it stands alone, for one word"
		case strings.Contains(token, ">") && (token != ">" || i < len(tokens)-1):
			return "has > that is not the last word: it stands alone there, for all words that follow"
		case strings.HasSuffix(token, "/#") || strings.Contains(token+"/", "/+/"):
			return "has the wildcards of MQTT: NATS has dots between words, * for one word, and > at the end for " +
				"all that follow"
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
