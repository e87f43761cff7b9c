package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// A secret is redacted in every form in which clients write it.
func TestEveryForm(t *testing.T) {
	everyByte := func(format string) func(string) string {
		return func(s string) string {
			var b strings.Builder
			for _, c := range []byte(s) {
				fmt.Fprintf(&b, format, c)
			}
			return b.String()
		}
	}
	inJSON := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	basic := func(e *base64.Encoding, user string) func(string) string {
		return func(s string) string { return e.EncodeToString([]byte(user + ":" + s)) }
	}
	forms := map[string]func(string) string{
		"plain":        func(s string) string { return s },
		"query":        url.QueryEscape,
		"query, small": func(s string) string { return lowerEscapes(url.QueryEscape(s)) },
		"path":         url.PathEscape,
		"user":         func(s string) string { return url.UserPassword("u", s).String() },
		"query, twice": func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
		"path, small":  func(s string) string { return strings.ToLower(everyByte("%%%02X")(s)) },
		"every byte":   everyByte("%%%02X"),
		"some bytes":   func(s string) string { return strings.NewReplacer("@", "%40", "s", "%73").Replace(s) },
		"Go":           strconv.Quote,
		"Go, ASCII":    strconv.QuoteToASCII,
		"Go, twice":    func(s string) string { return strconv.Quote(strconv.Quote(s)) },
		"JSON":         inJSON,
		"JSON, twice":  func(s string) string { return inJSON(inJSON(s)) },
		"JSON, all escaped": func(s string) string {
			var b strings.Builder
			for _, c := range s {
				fmt.Fprintf(&b, `\u%04X`, c)
			}
			return b.String()
		},
		"JSON, slashes": func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
		"backslashes":   everyByte(`\x%02x`),
		"libpq": func(s string) string {
			return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)
		},
		"SQL": func(s string) string { return strings.ReplaceAll(s, `'`, `''`) },
		"CSV": func(s string) string { return strings.ReplaceAll(s, `"`, `""`) },
		"XML": func(s string) string {
			var b strings.Builder
			_ = xml.EscapeText(&b, []byte(s))
			return b.String()
		},
		"hexadecimal":      func(s string) string { return hex.EncodeToString([]byte(s)) },
		"HEXADECIMAL":      func(s string) string { return fmt.Sprintf("%X", s) },
		"base64":           func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64 of a line": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s + "\n")) },
		"base64, for URLs": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		"Basic, user of 1": basic(base64.StdEncoding, "u"),
		"Basic, user of 2": basic(base64.StdEncoding, "us"),
		"Basic, user of 3": basic(base64.StdEncoding, "usr"),
		"Basic, for URLs":  basic(base64.URLEncoding, "us"),
		"base64 of credentials": func(s string) string {
			return base64.StdEncoding.EncodeToString([]byte("\x00me\x00" + s))
		},
		"base64 between others": func(s string) string {
			return base64.StdEncoding.EncodeToString([]byte("a" + s + "bcd"))
		},
		"Basic, escaped for URL": func(s string) string { return url.QueryEscape(basic(base64.StdEncoding, "usr")(s)) },
	}
	for _, secret := range []string{`Xk9@pa/s#w0rd?%41&='1`, `a"q\u0041oté<b>&'c 9z`, "ÿþ>?~~ï¿½>>>???"} {
		r := redactor("${P}", secret)
		for name, form := range forms {
			text := "cannot log in: [" + form(secret) + "] refused"
			got := r.Text(text)
			if !strings.Contains(got, "${P}") || !strings.HasPrefix(got, "cannot log in: [") ||
				!strings.HasSuffix(got, "] refused") || len(got) > len("cannot log in: [${P}] refused")+24 {
				t.Errorf("%s: %q is redacted as %q", name, text, got)
			}
		}
	}
	if got := redactor("${P}", `Xk9@pa/s#w0rd`).Text(`100 % of C:\new\x and 5%zz at %4`); got !=
		`100 % of C:\new\x and 5%zz at %4` {
		t.Errorf("another text has become %q", got)
	}
}
