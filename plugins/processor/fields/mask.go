package fields

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// mask hides values.
type mask struct {
	references
	single   []*fieldref.Ref // fields that are hidden as a whole
	searched []*fieldref.Ref // parts in which texts are hidden
	find     []pattern       // patterns to hide in texts; nil: hide whole values
	hide     func(text string) (string, error)
	deep     bool          // a list or object is hidden text by text
	sets     []replacement // reused; replacements in the present record
}

// replacement is a new value for a field.
type replacement struct {
	ref   *fieldref.Ref
	value any
}

type maskSettings struct {
	// Comma list of references to the fields. With patterns, all texts in them and below are searched.
	Fields string `json:"fields" default:".Payload"`
	// Comma list of patterns: card, email, ssn, iban, ipv4, ipv6, phone. Without patterns the fields are hidden whole.
	Patterns []string `json:"patterns"`
	// One more pattern, an RE2 expression.
	Regex string `json:"regex"`
	// redact replaces by the text of 'with', hash by a pseudonym made with 'key', keep-first and keep-last leave some
	// characters (truncate is keep-last), ip leaves the network of an IP address, email the domain of an e-mail
	// address.
	Method string `json:"method" default:"redact" validate:"inclusion=redact|hash|keep-first|keep-last|truncate|ip|email"`
	// Text in place of redacted text.
	With string `json:"with" default:"[REDACTED]"`
	// Secret key of the hash. Equal values have equal pseudonyms in all pipelines with this key.
	Key string `json:"key"`
	// Form of the hash: 64 hexadecimal digits, 52 characters a-z and 2-7, or as many decimal digits as the value has
	// characters.
	Format string `json:"format" default:"hex" validate:"inclusion=hex|base32|digits"`
	// Characters of the hash in hex or base32, at least 16. 0: all.
	Length int `json:"length" default:"0" validate:"gt=-1"`
	// Characters that keep-first and keep-last leave. A value of at most twice as many is hidden whole.
	Keep int `json:"keep" default:"4" validate:"gt=-1"`
	// Bits of an IPv4 address that ip leaves, also of one within an IPv6 address (::ffff:192.0.2.1).
	IPv4 int `json:"ipv4.prefix" default:"24" validate:"gt=-1"`
	// Bits of an IPv6 address that ip leaves.
	IPv6 int `json:"ipv6.prefix" default:"48" validate:"gt=-1"`
	// First characters of the part before the @ that email leaves. Three stars replace the others.
	LocalKeep int `json:"local.keep" default:"0" validate:"gt=-1"`
}

// Parameters implements sdk.Processor.
func (m *mask) Parameters() sdk.Parameters { return sdk.Described(maskSettings{}, descriptions) }

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
				Message: fmt.Sprintf("%q is none of card, email, ssn, iban, ipv4, ipv6, phone", name)}
		}
		m.find = append(m.find, pattern{regexp.MustCompile(p.expr), p.within})
	}
	if s.Regex != "" {
		re, err := regexp.Compile(s.Regex)
		if err != nil {
			return sdk.SettingError{Setting: "regex", Message: err.Error()}
		}
		m.find = append(m.find, pattern{expr: re})
	}
	for _, ref := range m.refs {
		if len(m.find) == 0 && ref.IsNested() {
			m.single = append(m.single, ref)
		} else {
			m.searched = append(m.searched, ref)
		}
	}
	m.deep = s.Method == "ip" || s.Method == "email"
	var err error
	m.hide, err = hider(s)
	return err
}

// pattern is a pattern to search for in texts.
type pattern struct {
	expr *regexp.Regexp
	// within returns the place in a match of the text to hide; ok is false if there is none. Nil: the whole match.
	within func(match string) (from, to int, ok bool)
}

var patterns = map[string]struct {
	expr   string
	within func(match string) (from, to int, ok bool)
}{
	"card":  {`\b(?:\d[ -]?){12,18}\d\b`, whole(isCard)},
	"email": {expr: `[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`},
	"ssn":   {expr: `\b\d{3}-\d{2}-\d{4}\b`},
	"iban":  {`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b`, whole(isIBAN)},
	"ipv4":  {expr: `\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b`},
	"ipv6":  {`[\w.]*:[\w.:]*:[\w.:]*`, findIPv6},
	"phone": {expr: `\+\d{1,3}(?:[ ()-]{0,2}\d){6,12}\b`},
}

// whole makes a pattern hide matches as a whole if they pass the check.
func whole(check func(match string) bool) func(string) (from, to int, ok bool) {
	return func(match string) (from, to int, ok bool) { return 0, len(match), check(match) }
}

// maxIPv6 is the length of the longest text of an IPv6 address without a zone.
const maxIPv6 = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// findIPv6 finds the first IPv6 address in a text of words, dots and colons. Words may come before it (addr:fe80::1)
// and after it (fe80::1:refused).
func findIPv6(match string) (from, to int, ok bool) {
	for from = 0; from < len(match); from++ {
		if from > 0 && match[from-1] != ':' {
			continue
		}
		for to = min(len(match), from+maxIPv6); to > from; to-- {
			if to < len(match) && match[to] != ':' && match[to] != '.' {
				continue
			}
			a, err := netip.ParseAddr(match[from:to])
			if err == nil && a.Is6() && !a.IsUnspecified() {
				return from, to, true
			}
		}
	}
	return 0, 0, false
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
		m.sets = m.sets[:0]
		for _, ref := range m.single {
			if err := m.field(r, ref); err != nil {
				return err
			}
		}
		for _, ref := range m.searched {
			if err := m.below(r, ref); err != nil {
				return err
			}
		}
		for _, s := range m.sets {
			if err := s.ref.Set(r, s.value); err != nil {
				return err
			}
		}
		return nil
	})
}
