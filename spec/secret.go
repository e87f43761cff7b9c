package spec

import (
	"slices"
	"strings"
	"unicode"

	"github.com/conduit-agent/conduit/spec/texts"
)

// secretWords make a setting secret wherever they occur in its name.
var secretWords = []string{"password", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "credential",
	"credentials",
	"apikey", "accesskey", "secretkey", "privatekey", "accountkey", "authorization", "psk", "nkey", "jwt", "hmac",
	"otp", "totp", "mnemonic",
	"userinfo"}

// secretNouns make a setting secret when its name ends with them, or with them and one of forms.
var secretNouns = []string{"pass", "pat", "webhook", "bearer", "basic", "auth", "cred", "creds", "cookie", "cookies",
	"session", "signature",
	"pin", "seed", "keytab", "sas"}

// valueForms are words for the form of a value: webhook_url, session.id.
var valueForms = []string{"url", "uri", "id", "value", "data", "string", "text", "content"}

// publicKeys are the words before "key" in names of keys that identify something and grant no access.
var publicKeys = []string{"primary", "partition", "partitioning", "sort", "sorting", "foreign", "routing", "record",
	"message", "public", "group", "unique"}

// onlyReference matches a value that is only a reference, so it reveals nothing.
var onlyReference = texts.Regexp(`^\$(\w+|\{\w+\}|\{(file|credential):[^{}]*\})$`)

// secretWithin finds secrets within values. The secret is in the first group that matched, if any.
var secretWithin = texts.Regexp(strings.Join([]string{
	`://[^/@\s:]*:([^@\s]+)@`,                                  // in a URL
	`https?://([^/@\s:${}]{12,}|[^/@\s:${}]*\d[^/@\s:${}]*)@`,  // a key in a URL, which user names rarely match
	`^[^\s:/@]+:([^\s@/][^\s@]*)@(?:\w*\(|/|[\w.-]+(?:/|:\d))`, // in a DSN: user:password@tcp(host:3306)/db
	// in a list
	`(?i:(?:password|passwd|pwd|secret|token|(?:api|account|access|secret|private|signing|shared)[-_ ]?(?:access[-_ ` +
		`]?)?key)["']?\s*[=:]\s*)` + quotedSecret,
	`(?i:sharedaccesssignature\s*=\s*)([^\s;]+)`,
	`(?i:\b(?:pass|pw|authorization|jwt|pat|psk|sas)["']?\s*[=:]\s*)` + quotedSecret,
	`(?i:[?&](?:key|sig|signature|auth|code)=([^&\s]+))`, // in a query
	`\bBearer\s+([\w.~+/=-]+)`,                           // in a header
	`\bBasic\s+([A-Za-z0-9+/]{8,}=*)`,
	`^(?:(?i:bearer)\s+(\S+)|(?i:basic)\s+([A-Za-z0-9+/]*[A-Z0-9+/][A-Za-z0-9+/]{7,}=*))$`,
	`-----BEGIN [A-Z ]*PRIVATE KEY`,
	issuedSecret,
}, "|"))

// issuedSecret matches secrets in the formats of well-known services.
const issuedSecret = `\b(?:gh[opsur]_\w{4}|github_pat_\w|glpat-\w|xox[abeoprs]-\w|[sr]k_(?:live|test)_\w|` +
	`AIza[\w-]{30}|eyJ[\w-]{8,}\.[\w-]+\.)[\w.-]*`

// quotedSecret matches a value after a name, in quotes or up to the end of a list item.
const quotedSecret = `(?:'([^']+)'|"([^"]+)"|([^\s;,&'"]+)|['"])`

// harmlessValue matches a value that grants no access: a switch, a small number, a duration, a size, a method of
// authentication, or the kind or location of a credential.
var harmlessValue = texts.Regexp(
	`^(?i:true|false|yes|no|on|off|none|null|auto|default|enabled?|disabled?|required?|optional|` +
		`basic|bearer|digest|plain|scram(-sha-?\d+)?|sha-?\d+|hmac(-sha-?\d+)?|md5|rs\d+|es\d+|hs\d+|ntlm|kerberos|` +
		`gssapi|negotiate|oauth2?|oauthbearer|iam|aws|gcp|azure|v\d|mtls|tls|ssl|x509|` +
		`apikey|api[-_]key|token|password|header|cookie|query|body|strict|lax|` +
		`\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d|[kmg]i?b?)|(\d+[hms])+)$`)

// smallNumber matches a number that is too short to be a secret, unless it is a pin.
var smallNumber = texts.Regexp(`^-?\d{1,3}$`)

// IsSecret reports whether the value of the setting must not be shown. It decides by the name, and by secrets within
// the value. References are shown as written, including their defaults. In doubt the value is a secret.
func IsSecret(name, value string) bool {
	if value == "" || IsReference(value) {
		return false
	}
	return secretByName(name, value) || mayHaveSecretWithin(value) && secretWithin().MatchString(value)
}

// mayHaveSecretWithin reports whether secretWithin can match value. Most values have nothing that a match needs, and
// the expression is slow.
func mayHaveSecretWithin(value string) bool {
	return strings.ContainsAny(value, "@=:-_ \t\r\n\f") || strings.Contains(value, "AIza") ||
		strings.Contains(value, "eyJ")
}

// ofRecord matches a reference to a field, or a template.
var ofRecord = texts.Regexp(`^\.(?:Key|Payload|Metadata|Position)\b|\{\{`)

// secretByName reports whether a setting is secret because of its name.
func secretByName(name, value string) bool {
	if lower := strings.ToLower(value); lower == "true" || lower == "false" {
		return false
	}
	segments := strings.Split(name, ".")
	for _, segment := range segments {
		for _, word := range wordsOfName(segment) {
			if slices.Contains(secretWords, word) {
				return true
			}
		}
	}
	all := wordsOfName(name)
	n := len(all)
	if n > 0 && all[n-1] == "key" && (n == 1 || !slices.Contains(publicKeys, all[n-2])) || isKeyData(all) {
		return n > 1 || !ofRecord().MatchString(value) // some connectors have a setting with this name for records
	}
	return isSecretNoun(all, value)
}

// isSecretNoun reports whether a name ends with a noun for a secret, unless value is harmless.
func isSecretNoun(all []string, value string) bool {
	if n := len(all); n > 1 && slices.Contains(valueForms, all[n-1]) {
		all = all[:n-1]
	}
	if len(all) == 0 || harmlessValue().MatchString(value) {
		return false
	}
	noun := all[len(all)-1]
	return slices.Contains(secretNouns, noun) && (noun == "pin" || !smallNumber().MatchString(value))
}

// isKeyData reports whether a name is the name of a key in a kubeconfig: client-key-data.
func isKeyData(all []string) bool {
	n := len(all)
	return n > 1 && all[n-2] == "key" && all[n-1] == "data"
}

// SecretParts returns the secret parts of a setting's value: the whole value, and the secrets within. There are none
// unless IsSecret reports true.
func SecretParts(name, value string) []string {
	if !IsSecret(name, value) {
		return nil
	}
	parts := []string{value}
	for _, groups := range secretWithin().FindAllStringSubmatch(value, -1) {
		for _, group := range groups[1:] {
			if group != "" {
				parts = append(parts, group)
			}
		}
	}
	return parts
}

// wordsOfName returns the words of a name in lower case: apiKey, API_KEY and api-key have two.
func wordsOfName(name string) []string {
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
		case unicode.IsUpper(r) && i > start &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush(i)
			start = i
		}
	}
	flush(len(runes))
	return all
}

// IsReference reports whether value is only a reference, so it reveals nothing.
func IsReference(value string) bool { return onlyReference().MatchString(value) }
