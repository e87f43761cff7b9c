package spec_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/spec"
)

// expand replaces the references in text by P, a password with every character that has a meaning in URLs, and by other
// values.
func expand(t *testing.T, text string) string {
	t.Helper()
	values := map[string]string{
		"P": "a@b/c?d#e%41&f=g:h i+j", "U": "us er", "BOTH": "u:p@q:r", "HOST": "h:5432", "SCHEME": "https",
		"Q": "a=b&c=d%20e#f", "HOOK": "T0/B1/x?y", "E": "", "Z": `it's \a "b"`, "J": `x\n`,
	}
	got, err := spec.Lookup{Kinds: kinds(func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}, nil, nil)}.Expand(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return got
}

const component = "a%40b%2Fc%3Fd%23e%2541%26f%3Dg%3Ah%20i%2Bj"

func TestContexts(t *testing.T) {
	const raw = "a@b/c?d#e%41&f=g:h i+j"
	for text, want := range map[string]string{
		"${P}":                  raw,
		" ${P} ":                " " + raw + " ",
		"x${P}":                 "x" + raw,
		"postgres://u:${P}@h/d": "postgres://u:" + component + "@h/d",
		"postgres://${U}:${P}@${HOST}/${U}?sslmode=disable&x=${P}": "postgres://us%20er:" + component +
			"@h:5432/us%20er?sslmode=disable&x=" + component,
		"postgres://$U:$P@h1:1,h2:2/d":        "postgres://us%20er:" + component + "@h1:1,h2:2/d",
		"${SCHEME}://u:${P}@h":                "https://u:" + component + "@h",
		"jdbc:postgresql://h/d?password=${P}": "jdbc:postgresql://h/d?password=" + component,
		"https://${BOTH}@h/x":                 "https://u:p%40q%3Ar@h/x",
		"https://${U}@h/x":                    "https://us%20er@h/x",
		"https://${HOST}":                     "https://h:5432",
		"postgres://${BOTH}":                  "postgres://u:p@q:r",
		"https://h/services/${HOOK}":          "https://h/services/T0/B1/x%3Fy",
		"https://h/bot${P}/send":              "https://h/bota@b/c%3Fd%23e%2541&f=g:h%20i+j/send",
		"https://h?t=${P}#${P}":               "https://h?t=" + component + "#" + component,
		"https://h/?${Q}":                     "https://h/?a=b&c=d%20e%23f",
		"nats://u:${P}@a:1, tls://v:${P}@b,c": "nats://u:" + component + "@a:1, tls://v:" +
			component + "@b,c",
		"https://h/?next=a,http://u:${P}@b": "https://h/?next=a,http://u:" + component + "@b",
		`https://h/{{ index .Metadata "a?b#c@d" }}?k=${P}`: `https://h/{{ index .Metadata "a?b#c@d" }}?k=` +
			component,
		`https://h/{{ if eq "${U}" "x" }}a{{ end }}/${U}`: `https://h/{{ if eq "us er" "x" }}a{{ end }}/us%20er`,
		"https://h/?k=${MISSING:-x y}":                    "https://h/?k=x%20y",
		"https://h/?k=$$${U}":                             "https://h/?k=$us%20er",
		"see https://u:${P}@h":                            "see https://u:" + raw + "@h",
		"user:${P}@tcp(h:3306)/d":                         "user:" + raw + "@tcp(h:3306)/d",

		"host=h password=${Z} dbname=d":       `host=h password=it\'s\ \\a\ "b" dbname=d`,
		"host=h password='${Z}' dbname=d":     `host=h password='it\'s\ \\a\ "b"' dbname=d`,
		"host=h password=${E} dbname=d":       "host=h password='' dbname=d",
		"host=h password='${E}' user=x${E}y":  "host=h password='' user=xy",
		"host = ${HOST}\nuser = ${U}":         "host = h:5432\nuser = us\\ er",
		"password=${Z}":                       "password=" + `it's \a "b"`,
		"host=h jaas=${Z}":                    "host=h jaas=" + `it's \a "b"`,
		`{"a": "${Z}", "b": [${E}]}`:          `{"a": "it's \\a \"b\"", "b": []}`,
		`{"a": "${Z}"}`:                       `{"a": "it's \\a \"b\""}`,
		`{"a": "${J}", "b": "\"${Z}"}`:        `{"a": "x\n", "b": "\"it's \\a \"b\""}`,
		`["${Z}", "x"]`:                       `["it's \\a \"b\"", "x"]`,
		`{{ .x }} "${Z}"`:                     `{{ .x }} "it's \a "b""`,
		`{not json "${Z}"}`:                   `{not json "it's \a "b""}`,
		"sasl.jaas.config password=\"${Z}\";": "sasl.jaas.config password=\"" + `it's \a "b"` + "\";",
	} {
		if got := expand(t, text); got != want {
			t.Errorf("%s\nis   %s\nwant %s", text, got, want)
		}
	}
}

// Whatever a value contains, it only replaces its reference in the URL.
func TestValuesStayInTheirPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOf(rapid.SampledFrom([]rune("a1@/#?%&=:+ \n\t\"'\\,;{}$é\x7f"))).Draw(t, "value")
		text, err := spec.Lookup{Kinds: kinds(nil, func(string) (string, error) {
			return value + "\n", nil
		}, nil)}.Expand("postgres://${file:/u}:${file:/p}@h:1/x${file:/d}?a=${file:/q}&b=c#f${file:/f}")
		if err != nil {
			t.Fatal(err)
		}
		value = strings.TrimSuffix(value, "\r")
		u, err := url.Parse(text)
		if err != nil {
			t.Fatalf("%q is no URL: %v", text, err)
		}
		password, _ := u.User.Password()
		if q := u.Query().Get("a"); u.Host != "h:1" || u.User.Username() != value || password != value ||
			u.Path != "/x"+value || q != value || u.Query().Get("b") != "c" || u.Fragment != "f"+value {
			t.Fatalf("%q: host %q, user %q, password %q, path %q, query %q, fragment %q, %v; want %q", text, u.Host,
				u.User.Username(), password, u.Path, q, u.Fragment, err, value)
		}
		in, err := spec.Lookup{Kinds: kinds(nil, func(string) (string, error) {
			return value, nil
		}, nil)}.Expand(`{"a": "x${file:/p}", "b": 1}`)
		var out struct{ A string }
		if err != nil || json.Unmarshal([]byte(in), &out) != nil {
			t.Fatalf("%q is no JSON, %v", in, err)
		}
	})
}
