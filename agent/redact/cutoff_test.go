package redact_test

import (
	"encoding/base64"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/spec/brief"
)

// Wherever a text is cut, at most three bytes of a secret remain, in each form and behind each escape.
func TestTextsThatWereCut(t *testing.T) {
	const secret = "sup3r/s3cret of=the+warehouse"
	r := redactor("${V}", secret)
	wrap := func(s string) string { return "cannot open: " + s + ": tried again" }
	for name, form := range map[string]string{
		"as it is": secret, "in a URL": url.QueryEscape(secret),
		"as lower-case escapes": strings.ToLower(url.PathEscape(secret)),
		"in base64":             base64.StdEncoding.EncodeToString([]byte(secret)),
	} {
		for kept := range len(form) {
			before := strings.Repeat("x", 100-kept)
			for _, text := range []string{
				brief.Text(before+" "+form+strings.Repeat("y", 200), 100+1+len("… (229 more bytes)")),
				before + form[:kept] + brief.Mark,
				brief.Mark + form[len(form)-kept:] + " " + before, wrap(before + " " + form[:kept] + brief.Mark),
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

// A cut that the handler of a log makes for pieces shows no parts.
func TestLogOfPieces(t *testing.T) {
	var b strings.Builder
	log := slog.New(redactor("${V}", "canary-51c0a7").Handler(slog.NewTextHandler(&b, nil)))
	log.Info("xxx canary-5…")
	log.Info("…1c0a7 yyy")
	if strings.Contains(b.String(), "canary") || strings.Contains(b.String(), "c0a7") {
		t.Errorf("logged %q", b.String())
	}
}
