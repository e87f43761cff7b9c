package redis

import "strings"

// wrongKey describes the mistake in a key; "" if it is valid. A key can contain *, but users who write it expect a
// pattern.
func (s *sourceSettings) wrongKey(key string) string {
	switch {
	case s.Type != "pubsub" && strings.Contains(key, "*"):
		return "has *: a " + s.Type + " has an exact key; only type pubsub supports patterns"
	case s.Type == "pubsub" && (strings.HasSuffix(key, ".>") || strings.HasSuffix(key, "/#")):
		return "ends with a wildcard of another system: in Redis, * matches any characters"
	}
	return ""
}

// isPattern reports whether a channel name is a pattern.
func isPattern(channel string) bool { return strings.ContainsAny(channel, `*?[\`) }

// one is a part of a pattern: a set of bytes, or a star, which matches any number of bytes.
type one struct {
	bytes [256]bool
	star  bool
}

// parts parses a channel name or pattern.
func parts(text string) (all []one) {
	literal := !isPattern(text)
	for i := 0; i < len(text); i++ {
		var p one
		switch c := text[i]; {
		case literal:
			p.bytes[c] = true
		case c == '*':
			p.star = true
		case c == '?':
			p.bytes = every(true)
		case c == '[':
			p.bytes, i = class(text, i+1)
		default:
			if c == '\\' && i+1 < len(text) {
				i++
			}
			p.bytes[text[i]] = true
		}
		all = append(all, p)
	}
	return all
}

func every(in bool) (set [256]bool) {
	for i := range set {
		set[i] = in
	}
	return set
}

// class parses a class such as a-z] that begins at i, and returns its end.
func class(text string, i int) (set [256]bool, end int) {
	in := true
	if i < len(text) && text[i] == '^' {
		in = false
		i++
	}
	set = every(!in)
	for ; i < len(text) && text[i] != ']'; i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		first, last := text[i], text[i]
		if i+2 < len(text) && text[i+1] == '-' {
			last = text[i+2]
			i += 2
		}
		for c := int(min(first, last)); c <= int(max(first, last)); c++ {
			set[c] = in
		}
	}
	return set, i
}

// overlap reports whether a channel can match both a and b; its messages would arrive twice.
func overlap(a, b string) bool {
	x, y := parts(a), parts(b)
	// reached[j] reports whether some text matches both x up to i and y up to j.
	reached := make([]bool, len(y)+1)
	reached[0] = true
	for i := 0; ; i++ {
		for j := range y { // y advances alone if x has a star there, or if a star of y matches nothing
			if reached[j] && (y[j].star || i > 0 && x[i-1].star) {
				reached[j+1] = true
			}
		}
		if i == len(x) {
			return reached[len(y)]
		}
		next := make([]bool, len(y)+1)
		for j := range next {
			switch {
			case !reached[j]:
			case x[i].star:
				next[j] = true
			case j > 0 && y[j-1].star: // the star of y also matches this part
				next[j] = true
			}
			if j < len(y) && reached[j] && !x[i].star && !y[j].star && intersect(&x[i], &y[j]) {
				next[j+1] = true
			}
		}
		reached = next
	}
}

func intersect(a, b *one) bool {
	for i := range a.bytes {
		if a.bytes[i] && b.bytes[i] {
			return true
		}
	}
	return false
}
