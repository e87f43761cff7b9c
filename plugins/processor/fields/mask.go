package fields

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// mask hides values.
type mask struct {
	references
	find []pattern // patterns to hide in texts; nil: hide whole values
	hide func(text string) string
}

type maskSettings struct {
	Fields   string   `json:"fields" default:".Payload" desc:"Comma list of references to the fields. With patterns, all texts in them and below are searched."`
	Patterns []string `json:"patterns" desc:"Comma list of patterns: card, email, ssn, iban, ipv4, phone. Without patterns the fields are hidden whole."`
	Regex    string   `json:"regex" desc:"One more pattern, an RE2 expression."`
	Method   string   `json:"method" default:"redact" validate:"inclusion=redact|hash|truncate" desc:"redact replaces by the text of 'with', hash by the HMAC-SHA-256 of the value in hexadecimal, truncate keeps the last characters."`
	With     string   `json:"with" default:"[REDACTED]" desc:"Text in place of redacted text."`
	Key      string   `json:"key" desc:"Secret key of the hash: equal values have equal hashes under one key."`
	Keep     int      `json:"keep" default:"4" validate:"gt=-1" desc:"Characters at the end that truncate leaves."`
}

// Parameters implements sdk.Processor.
func (m *mask) Parameters() sdk.Parameters { return sdk.ParametersOf(maskSettings{}) }

// Configure implements sdk.Processor.
func (m *mask) Configure(_ context.Context, settings map[string]string) error {
	var s maskSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	if err := m.parse("fields", s.Fields); err != nil {
		return err
	}
	for _, name := range s.Patterns {
		p, ok := patterns[name]
		if !ok {
			return sdk.SettingError{Setting: "patterns",
				Message: fmt.Sprintf("%q is none of card, email, ssn, iban, ipv4, phone", name)}
		}
		m.find = append(m.find, pattern{regexp.MustCompile(p.expr), p.check})
	}
	if s.Regex != "" {
		re, err := regexp.Compile(s.Regex)
		if err != nil {
			return sdk.SettingError{Setting: "regex", Message: err.Error()}
		}
		m.find = append(m.find, pattern{expr: re})
	}
	if s.Method == "hash" && s.Key == "" {
		return sdk.SettingError{Setting: "key",
			Message: "is required for method hash: without a secret, short values are found by trying"}
	}
	m.hide = hider(s)
	return nil
}

func hider(s maskSettings) func(string) string {
	switch s.Method {
	case "hash":
		return func(text string) string {
			h := hmac.New(sha256.New, []byte(s.Key))
			h.Write([]byte(text))
			return hex.EncodeToString(h.Sum(nil))
		}
	case "truncate":
		return func(text string) string { return truncate(text, s.Keep) }
	}
	return func(string) string { return s.With }
}

// truncate replaces all characters except the last keep by stars. A text of at most 2*keep characters is hidden as a
// whole.
func truncate(text string, keep int) string {
	n := utf8.RuneCountInString(text)
	if n <= 2*keep {
		return strings.Repeat("*", n)
	}
	last := []rune(text)[n-keep:]
	return strings.Repeat("*", n-keep) + string(last)
}

// pattern is a pattern to search for in texts.
type pattern struct {
	expr  *regexp.Regexp
	check func(match string) bool // nil: accept every match
}

var patterns = map[string]struct {
	expr  string
	check func(match string) bool
}{
	"card":  {`\b(?:\d[ -]?){12,18}\d\b`, isCard},
	"email": {expr: `[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`},
	"ssn":   {expr: `\b\d{3}-\d{2}-\d{4}\b`},
	"iban":  {`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b`, isIBAN},
	"ipv4":  {expr: `\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b`},
	"phone": {expr: `\+\d{1,3}(?:[ ()-]{0,2}\d){6,12}\b`},
}

// isCard checks the last digit of a card number (Luhn).
func isCard(match string) bool {
	sum, double := 0, false
	for i := len(match) - 1; i >= 0; i-- {
		if match[i] < '0' || match[i] > '9' {
			continue
		}
		d := int(match[i] - '0')
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum, double = sum+d, !double
	}
	return sum%10 == 0
}

// isIBAN checks the check digits of an account number (ISO 7064, 97-10).
func isIBAN(match string) bool {
	s := strings.ReplaceAll(match, " ", "")
	rest := 0
	for _, c := range s[4:] + s[:4] {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest == 1
}

// Process implements sdk.Processor.
func (m *mask) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return b.EachUntil(ctx, func(r *record.Record) error {
		for _, ref := range m.refs {
			if len(m.find) == 0 && ref.IsNested() {
				if err := m.whole(r, ref); err != nil {
					return err
				}
				continue
			}
			if err := m.below(r, ref); err != nil {
				return err
			}
		}
		return nil
	})
}
