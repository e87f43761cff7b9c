package spec

import (
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// keyKinds are the words before "key" in the names of keys that grant access.
var keyKinds = []string{"api", "secret", "private", "account", "signing", "shared", "encryption"}

// literalSecretWords end the name of a setting whose value is a secret.
var literalSecretWords = []string{"password", "passwd", "pwd", "passphrase", "secret", "token", "apikey", "secretkey",
	"privatekey", "accountkey",
	"authorization", "psk", "jwt", "nkey", "credential", "credentials"}

// noLiteralSecret matches a value that is no secret although the name says so: the path or address of a secret, a
// template, or the type of a field.
var noLiteralSecret = texts.Regexp(
	`^(?:[.~]{0,2}/[\w./~-]*|[a-z][a-z0-9+.-]*://\S*|.*\{\{.*|string|int|float|bool|bytes|time|duration)$`)

// literalSecret finds secrets within a single-line value. The secret is in the first group that matched.
var literalSecret = texts.Regexp(strings.Join([]string{
	`://[^/@\s:]*:([^@\s]+)@`,                                  // in a URL
	`^[^\s:/@]+:([^\s@/][^\s@]*)@(?:\w*\(|/|[\w.-]+(?:/|:\d))`, // in a DSN: user:password@tcp(host:3306)/db
	// in a connection string
	`(?i:(?:^|[\s;&?])(?:password|passwd|pwd|accountkey|sharedaccesskey|sharedaccesssignature)\s*=\s*)` + quotedSecret,
	issuedSecret,
}, "|"))

// literalSecretHints are texts: written only matches a value that contains a hint. Searching for them is faster.
var literalSecretHints = []string{"@", "=", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox",
	"k_live_", "k_test_", "AIza", "eyJ"}

// IsLiteralSecret reports whether a setting contains a literal secret in place of a reference. Unlike Is, which returns
// true in doubt, it returns true only when the name or the value leaves no doubt.
func IsLiteralSecret(name, value string) bool {
	switch {
	case strings.Contains(value, "PRIVATE KEY-----"):
		return true
	case namesSecret(name):
		return value != "" && !refers(value) && !harmlessValue().MatchString(value) &&
			!noLiteralSecret().MatchString(value)
	case !slices.ContainsFunc(literalSecretHints, func(h string) bool { return strings.Contains(value, h) }) ||
		strings.Contains(value, "\n") || strings.Contains(value, "{{"):
		return false // nothing to find, or a script or template
	}
	for _, groups := range literalSecret().FindAllStringSubmatch(value, -1) {
		found := groups[0]
		for _, group := range groups[1:] {
			if group != "" {
				found = group
			}
		}
		if !refers(found) {
			return true
		}
	}
	return false
}

// refers reports whether text contains a reference.
func refers(text string) bool {
	return hasReference().MatchString(strings.ReplaceAll(text, "$$", ""))
}

var hasReference = texts.Regexp(`\$[A-Za-z_{]`)

// namesSecret reports whether a name ends with words for a secret.
func namesSecret(name string) bool {
	all := wordsOfName(name)
	if n := len(all); n > 1 && slices.Contains([]string{"value", "data", "string", "text", "content"}, all[n-1]) {
		all = all[:n-1]
	}
	n := len(all)
	if n > 1 && all[n-1] == "key" {
		return slices.ContainsFunc(all[max(n-3, 0):n-1], func(word string) bool {
			return slices.Contains(keyKinds, word)
		})
	}
	return n > 0 && slices.Contains(literalSecretWords, all[n-1])
}
