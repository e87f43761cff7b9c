package redact_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Wherever a text is cut, at most three bytes of a secret remain, in each form and after each escape.
func TestTextsThatWereCut(t *testing.T) {
	const secret = "sup3r/s3cret of=the+warehouse"
	r := redactor("${V}", secret)
	wrap := func(s string) string { return "cannot open: " + s + ": tried again" }
	for name, form := range map[string]string{
		"as it is": secret, "in a URL": url.QueryEscape(secret),
		"as lower-case escapes":              lowerEscapes(url.PathEscape(secret)),
		"as a query with lower-case escapes": lowerEscapes(url.QueryEscape(secret)),
		"in base64":                          base64.StdEncoding.EncodeToString([]byte(secret)),
	} {
		for kept := range len(form) {
			before := strings.Repeat("x", 100-kept)
			for _, text := range []string{
				texts.Truncate(before+" "+form+strings.Repeat("y", 200), 100+1+len("… (229 more bytes)")),
				before + form[:kept] + texts.CutMark,
				texts.CutMark + form[len(form)-kept:] + " " + before, wrap(before + " " + form[:kept] + texts.CutMark),
			} {
				got := r.Text(text)
				for i := 0; i+6 <= len(form); i++ {
					if part := form[i : i+6]; strings.Contains(got, part) {
						t.Fatalf("%s, %d bytes kept: %q has %q of it", name, kept, got, part)
					}
				}
			}
		}
	}
}

// lowerEscapes returns text, which is escaped for a URL, with hexadecimal digits in lower case.
func lowerEscapes(text string) string {
	for c := range 256 {
		text = strings.ReplaceAll(text, fmt.Sprintf("%%%02X", c), fmt.Sprintf("%%%02x", c))
	}
	return text
}

func TestMarksWithoutSecrets(t *testing.T) {
	r := redactor("${V}", "canary-51c0a7")
	for _, text := range []string{
		"…", "waiting…", "…ready", "can…", "…0a7", "see … and …", "any canary… of others", strings.Repeat("…", 1000),
	} {
		want := strings.ReplaceAll(text, "canary…", "${V}…")
		if got := r.Text(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
	many := strings.Repeat("…", 1000) + "canary-51…" + strings.Repeat("…", 10)
	if got := r.Text(many); strings.Contains(got, "canary") {
		t.Errorf("behind many marks %q remains", got[len(got)-60:])
	}
	if got := new(redact.Redactor).Text("canary-…"); got != "canary-…" {
		t.Errorf("without values %q", got)
	}
}

// A cut that a log handler makes shows no parts.
func TestLogOfPieces(t *testing.T) {
	var b strings.Builder
	log := slog.New(redactor("${V}", "canary-51c0a7").Handler(slog.NewTextHandler(&b, nil)))
	log.Info("xxx canary-5…")
	log.Info("…1c0a7 yyy")
	if strings.Contains(b.String(), "canary") || strings.Contains(b.String(), "c0a7") {
		t.Errorf("logged %q", b.String())
	}
}

// Most texts have no mark, and most logs no secret.
func BenchmarkText(b *testing.B) {
	r := redactor("${V}", "sup3r/s3cret of=the+warehouse")
	for name, text := range map[string]string{
		"plain": strings.Repeat("cannot open the file: no such file; ", 30),
		"mark":  strings.Repeat("cannot open the file: no such file; ", 30) + texts.CutMark,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.Text(text)
			}
		})
	}
}
