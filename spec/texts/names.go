package texts

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the length limit of a name in bytes. File systems allow 255 bytes, and files named after it have
// suffixes.
const maxName = 200

// PathElement returns a path element for a tuple of ids. No other tuple has the same element, not even on a file system
// that ignores case. An element has no separator, does not begin with a dot, and is at most 200 bytes long. It has a
// character that no id has, such as the + between two ids, unless it is the element of a single id in lower case.
func PathElement(ids ...string) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte('+')
		}
		if id == "" {
			b.WriteByte('%')
		}
		for j := range len(id) {
			escapeByte(&b, id[j], j == 0)
		}
	}
	if b.Len() > maxName {
		return hashed(b.String(), "~", b.String())
	}
	return b.String()
}

// escapeByte escapes a byte: an upper-case letter as in the module cache of Go, !a for A, and others as in URLs.
func escapeByte(b *strings.Builder, c byte, first bool) {
	switch {
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-', c == '.' && !first:
		b.WriteByte(c)
	case 'A' <= c && c <= 'Z':
		b.WriteByte('!')
		b.WriteByte(c - 'A' + 'a')
	default:
		b.WriteByte('%')
		b.WriteString(hex.EncodeToString([]byte{c}))
	}
}

// hashed returns the beginning of name, followed by mark and the hash of id.
func hashed(name, mark, id string) string {
	sum := sha256.Sum256([]byte(id))
	return name[:min(len(name), maxName-2*sha256.Size-len(mark))] + mark + hex.EncodeToString(sum[:])
}

// Word returns a name for the qualified id of a connector that no other connector has. It consists of letters, digits,
// dots, underscores and hyphens, which brokers and stores accept everywhere. The name for an id such as shop:out is
// shop-out. If replacing characters would give another id the same name, a hash is appended.
func Word(qualified string) string {
	replaced := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '.':
			return r
		}
		return '-'
	}, qualified)
	// Exactly one hyphen, which replaces the colon in every qualified id, can only come from one id.
	if strings.Count(replaced, "-") == 1 && strings.Contains(qualified, ":") && len(replaced) <= maxName {
		return replaced
	}
	return hashed(replaced, "--", qualified)
}
