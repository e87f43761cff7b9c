// Package secret recognizes settings that are secret, by their names and by their values.
package secret

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// secretWords make a setting secret wherever they are in its name.
var secretWords = []string{"password", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "credential", "credentials",
	"apikey", "accesskey", "secretkey", "privatekey", "authorization"}

// publicKeys are what a key is called that names something instead of opening it.
var publicKeys = []string{"primary", "partition", "partitioning", "sort", "sorting", "foreign", "routing", "record", "message", "public", "group", "unique"}

// reference is a value that is only a reference, so that it says nothing itself.
var reference = regexp.MustCompile(`^\$(\w+|\{\w+\}|\{(file|credential):[^{}]*\})$`)

// inside finds secrets within values.
var inside = regexp.MustCompile(strings.Join([]string{
	`://[^/@\s]*:[^@\s]+@`,                               // in a URL
	`^[^\s:/@]+:[^\s@/][^\s@]*@(\w*\(|/|[\w.-]+(/|:\d))`, // in a DSN: user:password@tcp(host:3306)/db
	`(?i:(password|passwd|pwd|secret|token|(api|account|access|secret|private|signing)[-_ ]?key)["']?\s*[=:]\s*\S)`, // in a list
	`(?i:\b(pass|authorization)["']?\s*[=:]\s*\S)`,
	`(?i:[?&](key|sig|signature|auth)=[^&\s])`, // in a query
	`\b(Bearer\s+\S|Basic\s+[A-Za-z0-9+/]{8})`, // in a header
	`-----BEGIN [A-Z ]*PRIVATE KEY`,
	`\b(gh[opsur]_\w{4}|github_pat_\w|glpat-\w|xox[abeoprs]-\w|[sr]k_(live|test)_\w|AIza[\w-]{30}|eyJ[\w-]{8,}\.[\w-]+\.)`, // as services issue them
}, "|"))

// Is reports whether the value of the setting is to be shown to nobody. Names tell,
// and values that contain a secret. References are shown as written, with what they become
// without a variable. In doubt it is a secret.
func Is(name, value string) bool {
	if value == "" || IsReference(value) {
		return false
	}
	segments := strings.Split(name, ".")
	for _, segment := range segments {
		for _, word := range words(segment) {
			if slices.Contains(secretWords, word) {
				return true
			}
		}
	}
	last := words(segments[len(segments)-1])
	switch n := len(last); {
	case n == 0:
	case last[n-1] == "pass":
		return true
	case last[n-1] == "key" && (n == 1 || !slices.Contains(publicKeys, last[n-2])):
		return true
	}
	return inside.MatchString(value)
}

// words returns the words of a name in lower case: apiKey, API_KEY and api-key are two.
func words(name string) []string {
	var all []string
	start, runes := 0, []rune(name)
	flush := func(end int) {
		if end > start {
			all = append(all, strings.ToLower(string(runes[start:end])))
		}
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush(i)
			start = i + 1
		case unicode.IsUpper(r) && i > start && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush(i)
			start = i
		}
	}
	flush(len(runes))
	return all
}

// IsReference reports whether value is only a reference, so that it says nothing itself.
func IsReference(value string) bool { return reference.MatchString(value) }
