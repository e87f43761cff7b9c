package ref

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// context is the syntactic position of a reference in a text. It determines how to escape the value so that it stays
// one value.
type context int

const (
	plain         context = iota // unchanged
	component                    // of a URL: user, password, a name or value of the query
	path                         // of a URL: one segment or several
	credentials                  // everything before the @ of a URL: perhaps user:password
	pair                         // one or several name=value of the query of a URL
	conninfo                     // part of a value in key=value pairs of PostgreSQL
	conninfoWhole                // such a value without quotes
	quoted                       // in a string of JSON
)

// Marks stand for references while the surrounding text is parsed. Texts contain no such characters, because YAML
// forbids them.
const (
	mark     = "\x00"
	markCode = "\x01" // within {{ }}
)

// contexts returns the context of each reference in a text. A text that is a single reference has its value unchanged,
// even a URL.
func contexts(pieces []piece) []context {
	var b strings.Builder
	n := 0
	for _, p := range pieces {
		if p.source == "" {
			b.WriteString(strings.NewReplacer(mark, " ", markCode, " ").Replace(p.literal))
			continue
		}
		b.WriteString(mark)
		n++
	}
	text, all := b.String(), make([]context, n)
	if n == 0 || strings.TrimSpace(text) == mark {
		return all
	}
	text = action().ReplaceAllStringFunc(text, func(code string) string {
		return anything().ReplaceAllStringFunc(code, func(c string) string {
			if c == mark {
				return markCode
			}
			return "x"
		})
	})
	switch {
	case scheme().MatchString(text):
		copy(all, inURLs(text))
	case isConninfo(text):
		copy(all, inConninfo(text))
	case strings.HasPrefix(strings.TrimSpace(text), "{"), strings.HasPrefix(strings.TrimSpace(text), "["):
		copy(all, inJSON(text))
	}
	return all
}

var (
	action   = texts.Regexp(`(?s)\{\{.*?\}\}`) // of a template; may contain anything
	anything = texts.Regexp(`(?s).`)

	// scheme matches the beginning of a URL, where the scheme itself may come from a reference.
	scheme = texts.Regexp(`^\s*[A-Za-z\x00][A-Za-z0-9+.:\x00-]*://`)
	// another matches the separator between URLs in a list, with the scheme of the second.
	another = texts.Regexp(`,\s*[A-Za-z][A-Za-z0-9+.-]*://`)
)

// fill sets the context of every reference in text outside code.
func fill(all []context, text string, c context) {
	i := 0
	for _, b := range []byte(text) {
		switch string(b) {
		case mark:
			all[i] = c
			i++
		case markCode:
			i++
		}
	}
}

// each returns c for each reference of text.
func each(text string, c context) []context {
	all := make([]context, strings.Count(text, mark)+strings.Count(text, markCode))
	fill(all, text, c)
	return all
}

// inURLs returns the contexts in a URL, or in several URLs separated by commas.
func inURLs(text string) []context {
	before, _, _ := strings.Cut(text, "?")
	if at := another().FindStringIndex(before); at != nil {
		return slices.Concat(inURL(text[:at[0]]), inURLs(text[at[0]+1:]))
	}
	return inURL(text)
}

func inURL(text string) []context {
	scheme, rest, _ := strings.Cut(text, "://")
	all := each(scheme, plain)
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		c := component
		if authority[:at] == mark {
			c = credentials
		}
		all = append(all, each(authority[:at], c)...)
		authority = authority[at:]
	}
	all = append(all, each(authority, plain)...) // host and port; without an @ perhaps more
	rest, fragment, _ := strings.Cut(rest, "#")
	segments, query, _ := strings.Cut(rest, "?")
	all = append(all, each(segments, path)...)
	for one := range strings.SplitSeq(query, "&") {
		c := component
		if one == mark {
			c = pair
		}
		all = append(all, each(one, c)...)
	}
	return append(all, each(fragment, component)...)
}

// keyword matches a parameter of libpq, and its value, in key=value pairs.
var keyword = texts.Regexp(`^\s*(` + strings.Join([]string{
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
		m := keyword().FindStringSubmatchIndex(text)
		if m == nil {
			return false
		}
		where = where || slices.Contains([]string{"host", "hostaddr", "port", "dbname", "user"}, text[m[2]:m[3]])
		text = text[m[1]:]
	}
	return where
}

// inConninfo returns the contexts in key=value pairs.
func inConninfo(text string) (all []context) {
	for strings.TrimSpace(text) != "" {
		m := keyword().FindStringSubmatchIndex(text)
		c := conninfo
		if text[m[4]:m[5]] == mark {
			c = conninfoWhole
		}
		all = append(all, each(text[m[4]:m[5]], c)...)
		text = text[m[1]:]
	}
	return all
}

// inJSON returns the contexts in a JSON text, all plain if the text is no JSON.
func inJSON(text string) []context {
	var all []context
	var probe strings.Builder
	in, escaped := false, false
	for _, b := range []byte(text) {
		switch c := string(b); {
		case c == mark && in:
			all = append(all, quoted)
			probe.WriteByte('x')
		case c == mark, c == markCode:
			all = append(all, plain)
			probe.WriteByte('0')
		default:
			in = in != (b == '"' && !escaped)
			probe.WriteByte(b)
		}
		escaped = in && b == '\\' && !escaped
	}
	if !json.Valid([]byte(probe.String())) {
		return make([]context, len(all))
	}
	return all
}

// write returns the escaped form of a value in a context.
func (c context) write(value string) string {
	switch c {
	case component:
		return Component(value)
	case credentials:
		if user, password, both := strings.Cut(value, ":"); both {
			return Component(user) + ":" + Component(password)
		}
		return Component(value)
	case pair:
		return outside().ReplaceAllStringFunc(value, Component)
	case path:
		return Path(value)
	case conninfoWhole:
		if value == "" {
			return "''" // otherwise the next pair would become the value
		}
		return conninfo.write(value)
	case conninfo:
		return special().ReplaceAllString(value, `\$0`)
	case quoted:
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
	outside = texts.Regexp(`[\x00-\x20#\x7f]`)
	special = texts.Regexp(`[\s\v'\\]`)
)

// Component returns value as a component of a URL: all bytes that are not literal everywhere are escaped as %XX. A
// space is not escaped as +, as some readers do not decode it.
func Component(value string) string { return percent(value, "._~-") }

// Path returns value as a part of the path of a URL. It may be several segments.
func Path(value string) string { return percent(value, "._~-/!$&'()*+,;=:@") }

// percent returns value with %XX in place of all bytes except letters, digits and the bytes in as.
func percent(value, as string) string {
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
