package api

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// secretWords make a setting secret wherever they are in its name.
var secretWords = []string{"password", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "credential", "credentials",
	"apikey", "accesskey", "secretkey", "privatekey"}

// publicKeys are what a key is called that names something instead of opening it.
var publicKeys = []string{"primary", "partition", "partitioning", "sort", "sorting", "foreign", "routing", "record", "message", "public", "group", "unique"}

var (
	// reference is a value that is only a reference, so that it says nothing itself.
	reference = regexp.MustCompile(`^\$(\w+|\{\w+\}|\{(file|credential):[^{}]*\})$`)
	// inside finds a password within a value: in a URL, or in a list of key=value.
	inside = regexp.MustCompile(`(?i)://[^/@\s]*:[^/@\s]+@|(password|passwd|pwd|secret|token)["']?\s*[=:]\s*\S`)
)

// secret reports whether the value of the setting is to be shown to nobody. Names tell,
// and values that contain a password. References are shown as written.
func secret(name, value string) bool {
	if value == "" || reference.MatchString(value) {
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
	if n := len(last); n > 0 && last[n-1] == "key" && (n == 1 || !slices.Contains(publicKeys, last[n-2])) {
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

// redact returns settings with the secret ones hidden, never nil.
func redact(settings map[string]string) map[string]string {
	shown := make(map[string]string, len(settings))
	for name, value := range settings {
		if secret(name, value) {
			value = rest.Redacted
		}
		shown[name] = value
	}
	return shown
}

// redacted returns a copy of p that everybody may see.
func redacted(p *spec.Pipeline) spec.Pipeline {
	c := p.Clone()
	eachSettings(c, func(_, _ string, settings *map[string]string) {
		if *settings != nil {
			*settings = redact(*settings)
		}
	})
	return *c
}

// keep replaces *** in settings by what old has there. at is where the settings are in
// the request.
func keep(settings, old map[string]string, at string) (map[string]string, error) {
	settings = maps.Clone(settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if settings[name] != rest.Redacted {
			continue
		}
		value, ok := old[name]
		if !ok {
			field := join(at, name)
			return nil, fieldError(spec.CodeInvalid, field, fmt.Sprintf("%s is %s, which keeps a secret, but there is none yet", field, rest.Redacted)).
				Suggest("write the value or a reference such as ${file:/path}")
		}
		settings[name] = value
	}
	return settings, nil
}

// keepAll does as keep does for all settings of p, old being what it replaces.
func keepAll(p, old *spec.Pipeline, field naming) error {
	before := map[string]map[string]string{}
	eachSettings(old.Clone(), func(of, _ string, settings *map[string]string) { before[of] = *settings })
	var failed error
	eachSettings(p, func(of, at string, settings *map[string]string) {
		kept, err := keep(*settings, before[of], field(at))
		if err != nil && failed == nil {
			failed = err
		}
		*settings = kept
	})
	return failed
}

// eachSettings calls do for all settings of p, with ids to say what they are of and a
// JSON pointer to say where they are.
func eachSettings(p *spec.Pipeline, do func(of, at string, settings *map[string]string)) {
	for i := range p.Connectors {
		c, at := &p.Connectors[i], "/connectors/"+strconv.Itoa(i)
		do("/connectors/"+c.ID, at+"/settings", &c.Settings)
		eachProcessor("/connectors/"+c.ID, at, c.Processors, do)
	}
	eachProcessor("", "", p.Processors, do)
	do(dlqPrefix, dlqPrefix+"/settings", &p.DLQ.Settings)
}

func eachProcessor(of, at string, all []spec.Processor, do func(of, at string, settings *map[string]string)) {
	for i := range all {
		do(of+"/processors/"+all[i].ID, at+"/processors/"+strconv.Itoa(i)+"/settings", &all[i].Settings)
	}
}
