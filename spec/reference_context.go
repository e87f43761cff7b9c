package spec

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// refContext is the syntactic position of a reference in a text. It determines how to escape the value so that it stays
// one value.
type refContext int

const (
	verbatim       refContext = iota // unchanged
	urlComponent                     // of a URL: user, password, a name or value of the query
	urlPath                          // of a URL: one segment or several
	urlCredentials                   // everything before the @ of a URL: perhaps user:password
	urlPair                          // one or several name=value of the query of a URL
	conninfoPart                     // part of a value in key=value pairs of PostgreSQL
	conninfoWhole                    // such a value without quotes
	jsonString                       // in a string of JSON
)

// Marks stand for references while the surrounding text is parsed. Texts contain no such characters, because YAML
// forbids them.
const (
	refMark       = "\x00"
	refMarkInCode = "\x01" // within {{ }}
)

// refContexts returns the context of each reference in a text. A text that is a single reference has its value
// unchanged, even a URL.
func refContexts(pieces []piece) []refContext {
	var b strings.Builder
	n := 0
	for _, p := range pieces {
		if p.source == "" {
			b.WriteString(strings.NewReplacer(refMark, " ", refMarkInCode, " ").Replace(p.literal))
			continue
		}
		b.WriteString(refMark)
		n++
	}
	text, all := b.String(), make([]refContext, n)
	if n == 0 || strings.TrimSpace(text) == refMark {
		return all
	}
	text = templateAction().ReplaceAllStringFunc(text, func(code string) string {
		return anyCharacter().ReplaceAllStringFunc(code, func(c string) string {
			if c == refMark {
				return refMarkInCode
			}
			return "x"
		})
	})
	switch {
	case urlScheme().MatchString(text):
		copy(all, inURLs(text))
	case isConninfo(text):
		copy(all, inConninfo(text))
	case strings.HasPrefix(strings.TrimSpace(text), "{"), strings.HasPrefix(strings.TrimSpace(text), "["):
		copy(all, inJSON(text))
	}
	return all
}

var (
	templateAction = texts.Regexp(`(?s)\{\{.*?\}\}`) // of a template; may contain anything
	anyCharacter   = texts.Regexp(`(?s).`)

	// urlScheme matches the beginning of a URL, where the scheme itself may come from a reference.
	urlScheme = texts.Regexp(`^\s*[A-Za-z\x00][A-Za-z0-9+.:\x00-]*://`)
	// nextURL matches the separator between URLs in a list, with the scheme of the second.
	nextURL = texts.Regexp(`,\s*[A-Za-z][A-Za-z0-9+.-]*://`)
)

// fillContexts sets the context of every reference in text outside code.
func fillContexts(all []refContext, text string, c refContext) {
	i := 0
	for _, b := range []byte(text) {
		switch string(b) {
		case refMark:
			all[i] = c
			i++
		case refMarkInCode:
			i++
		}
	}
}

// eachContext returns c for each reference of text.
func eachContext(text string, c refContext) []refContext {
	all := make([]refContext, strings.Count(text, refMark)+strings.Count(text, refMarkInCode))
	fillContexts(all, text, c)
	return all
}

// inURLs returns the contexts in a URL, or in several URLs separated by commas.
func inURLs(text string) []refContext {
	before, _, _ := strings.Cut(text, "?")
	if at := nextURL().FindStringIndex(before); at != nil {
		return slices.Concat(inURL(text[:at[0]]), inURLs(text[at[0]+1:]))
	}
	return inURL(text)
}

func inURL(text string) []refContext {
	scheme, rest, _ := strings.Cut(text, "://")
	all := eachContext(scheme, verbatim)
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		c := urlComponent
		if authority[:at] == refMark {
			c = urlCredentials
		}
		all = append(all, eachContext(authority[:at], c)...)
		authority = authority[at:]
	}
	all = append(all, eachContext(authority, verbatim)...) // host and port; without an @ perhaps more
	rest, fragment, _ := strings.Cut(rest, "#")
	segments, query, _ := strings.Cut(rest, "?")
	all = append(all, eachContext(segments, urlPath)...)
	for one := range strings.SplitSeq(query, "&") {
		c := urlComponent
		if one == refMark {
			c = urlPair
		}
		all = append(all, eachContext(one, c)...)
	}
	return append(all, eachContext(fragment, urlComponent)...)
}

// conninfoKeyword matches a parameter of libpq, and its value, in key=value pairs.
var conninfoKeyword = texts.Regexp(`^\s*(` + strings.Join([]string{
	"host", "hostaddr", "port", "dbname", "user", "password", "passfile", "connect_timeout", "client_encoding",
	"options", "application_name",
	"fallback_application_name", "keepalives\\w*", "tcp_user_timeout", "ssl\\w*", "replication", "target_session_attrs",
	"channel_binding", "require_auth",
	"gss\\w+", "krb\\w+", "min_protocol_version", "max_protocol_version", "load_balance_hosts", "service",
	"servicefile", "search_path", "statement_timeout", "TimeZone", "timezone",
}, "|") + `)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(\s|$)`)

// isConninfo reports whether text consists of key=value pairs in the syntax of libpq, with at least one that locates
// the database.
func isConninfo(text string) bool {
	where := false
	for strings.TrimSpace(text) != "" {
		m := conninfoKeyword().FindStringSubmatchIndex(text)
		if m == nil {
			return false
		}
		where = where || slices.Contains([]string{"host", "hostaddr", "port", "dbname", "user"}, text[m[2]:m[3]])
		text = text[m[1]:]
	}
	return where
}

// inConninfo returns the contexts in key=value pairs.
func inConninfo(text string) (all []refContext) {
	for strings.TrimSpace(text) != "" {
		m := conninfoKeyword().FindStringSubmatchIndex(text)
		c := conninfoPart
		if text[m[4]:m[5]] == refMark {
			c = conninfoWhole
		}
		all = append(all, eachContext(text[m[4]:m[5]], c)...)
		text = text[m[1]:]
	}
	return all
}

// inJSON returns the contexts in a JSON text, all plain if the text is no JSON.
func inJSON(text string) []refContext {
	var all []refContext
	var probe strings.Builder
	in, escaped := false, false
	for _, b := range []byte(text) {
		switch c := string(b); {
		case c == refMark && in:
			all = append(all, jsonString)
			probe.WriteByte('x')
		case c == refMark, c == refMarkInCode:
			all = append(all, verbatim)
			probe.WriteByte('0')
		default:
			in = in != (b == '"' && !escaped)
			probe.WriteByte(b)
		}
		escaped = in && b == '\\' && !escaped
	}
	if !json.Valid([]byte(probe.String())) {
		return make([]refContext, len(all))
	}
	return all
}

// write returns the escaped form of a value in a context.
func (c refContext) write(value string) string {
	switch c {
	case urlComponent:
		return URLComponent(value)
	case urlCredentials:
		if user, password, both := strings.Cut(value, ":"); both {
			return URLComponent(user) + ":" + URLComponent(password)
		}
		return URLComponent(value)
	case urlPair:
		return outsideURL().ReplaceAllStringFunc(value, URLComponent)
	case urlPath:
		return URLPath(value)
	case conninfoWhole:
		if value == "" {
			return "''" // otherwise the next pair would become the value
		}
		return conninfoPart.write(value)
	case conninfoPart:
		return conninfoSpecial().ReplaceAllString(value, `\$0`)
	case jsonString:
		if json.Valid([]byte(`"` + value + `"`)) { // it is escaped already, or needs no escaping
			return value
		}
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(value) // a string always has a JSON form
		text := strings.TrimSuffix(b.String(), "\n")
		return text[1 : len(text)-1]
	}
	return value
}

var (
	outsideURL      = texts.Regexp(`[\x00-\x20#\x7f]`)
	conninfoSpecial = texts.Regexp(`[\s\v'\\]`)
)

// URLComponent returns value as a component of a URL: all bytes that are not literal everywhere are escaped as %XX. A
// space is not escaped as +, as some readers do not decode it.
func URLComponent(value string) string { return percentEncode(value, "._~-") }

// URLPath returns value as a part of the path of a URL. It may be several segments.
func URLPath(value string) string { return percentEncode(value, "._~-/!$&'()*+,;=:@") }

// percentEncode returns value with %XX in place of all bytes except letters, digits and the bytes in as.
func percentEncode(value, as string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		switch c := value[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(as, c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
