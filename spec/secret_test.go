package spec_test

import (
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// A value is secret because of its name, unless the value cannot be a secret.
func TestIsByName(t *testing.T) {
	for _, name := range []string{"password", "db.passwd", "apiKey", "github.pat", "webhook", "webhook_url",
		"webhookURL", "webhook.url", "accountkey", "AccountKey",
		"psk", "jwt", "bearer", "auth.bearer", "basic", "auth", "cred", "cookie", "session", "session.id", "sessionId",
		"hmac", "signature", "otp", "pin", "seed",
		"mnemonic", "keytab", "userinfo", "client-key-data", "ssl.key", "token"} {
		if !spec.IsSecret(name, "Xy7f2-qL91") {
			t.Errorf("%s is shown", name)
		}
		if spec.IsSecret(name, "${VALUE}") || spec.IsSecret(name, "") || spec.IsSecret(name, "true") {
			t.Errorf("a reference, nothing or a switch is hidden in %s", name)
		}
	}
	for _, c := range [][2]string{{"headers.X-Api-Key", "Xy7f2-{{ .Key.id }}"}, {"key", ".Xy7f2-qL91"}, {"key", "Xy7f2"},
		{"url", "postgres://u:$ecret99@h"}, {"url", "https://ghp_Xy7f2qL91Xy7f2qL91:${X}@github.com"}} {
		if !spec.IsSecret(c[0], c[1]) {
			t.Errorf("%s is shown in %s", c[1], c[0])
		}
	}
	if !spec.IsSecret("pin", "1234") || !spec.IsSecret("pin", "123") || !spec.IsSecret("seed", "8412773") {
		t.Error("a pin or a long number is shown")
	}
	for _, c := range [][2]string{{"session.timeout", "30s"}, {"session.timeout.ms", "45000"}, {"auth.type", "basic"},
		{"auth", "basic"}, {"auth", "SCRAM-SHA-256"},
		{"sasl.mechanism", "OAUTHBEARER"}, {"auth.enabled", "true"}, {"session", "30s"}, {"seed", "42"},
		{"cookie", "strict"}, {"signature", "v4"},
		{"basic", "true"}, {"pattern", "a.*b"}, {"path", "/var/lib/data"}, {"spin", "fast"}, {"author", "Jane Roe"},
		{"authority", "example.com"}, {"credits", "1000"},
		{"bearer", "false"}, {"partition.key", "id"}, {"seeds", "a:9042,b:9042"}, {"session.file", "/var/lib/s"},
		{"key", ".Payload.After.id"}, {"key", "orders:{{ .Key.id }}"},
		{"webhook.timeout", "5s"}, {"webhook", "disabled"},
		{"cookie.name", "sid"}, {"hook", "x"}, {"auth.mechanism", "plain"}, {"session.ttl", "1h30m"}, {"pins", "4"}} {
		if spec.IsSecret(c[0], c[1]) {
			t.Errorf("%s: %s is hidden", c[0], c[1])
		}
	}
}

// A secret within a value is also found on its own.
func TestParts(t *testing.T) {
	for value, want := range map[string]string{
		"SharedAccessSignature=sv-2&x":           "sv-2&x",
		"https://Kf83hd72kd83hd72@example.com/1": "Kf83hd72kd83hd72",
		"host=h pw='a b'":                        "a b",
		"postgres://u:hunter2@h/db":              "hunter2",
		"Bearer abc.def":                         "abc.def",
		"bearer abc.def":                         "abc.def",
		"basic dXNlcjpwdzc3":                     "dXNlcjpwdzc3",
		`{"password": "a,b"}`:                    "a,b",
		"u:hunter2@tcp(h:1)/db":                  "hunter2",
		"https://h/?a=b&sig=hunter2&c=d":         "hunter2",
	} {
		got := spec.SecretParts("value", value)
		if len(got) < 2 || got[0] != value || !slices.Contains(got, want) {
			t.Errorf("the secrets of %q are %q, want it and %q", value, got, want)
		}
	}
	for _, value := range []string{"https://user@host/path", "postgres://u@h/db", "basic authentication",
		"the bearer of this", "https://${TOKEN_OF_SERVICE}@h/x", "primaryKey=id", "30s"} {
		if got := spec.SecretParts("value", value); got != nil {
			t.Errorf("%q has secrets: %q", value, got)
		}
	}
}
