package spec_test

import (
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// A literal secret is found, and hidden too.
func TestSecretLiteral(t *testing.T) {
	for _, c := range [][2]string{{"password", "hunter2"}, {"auth.password", "123"}, {"auth.password", "pa$$word"},
		{"saslPassword", "a b"}, {"aws.secretAccessKey", "wJalr/K7MDENG"}, {"auth.token", "abc"},
		{"auth.hmac.secret", "abc"}, {"auth.nkey", "SUAB"}, {"headers.X-API-Key", "abc"},
		{"headers.Authorization", "Bearer abc"}, {"tls.key", "-----BEGIN EC PRIVATE KEY-----\nx"},
		{"auth.credentials", "-----BEGIN NATS USER JWT-----\nx"}, {"url", "postgres://u:hunter2@h/db"},
		{"url", "postgres://u:hunter2@${HOST}/db"},
		{"url", "host=h password=hunter2"}, {"dsn", "u:hunter2@tcp(h:3306)/db"}, {"connection", "Server=h;Pwd='a b'"},
		{"header", "ghp_abcd1234"}, {"x", "sk_live_abc"},
		{"x", "glpat-abc"}, {"x", "xoxb-abc"}, {"x", "github_pat_abc"}, {"x", "eyJabcdefgh.abc.abc"},
		{"x", "AIza123456789012345678901234567890"}} {
		if !spec.IsLiteralSecret(c[0], c[1]) {
			t.Errorf("%s: %s is not found", c[0], c[1])
		}
		if !spec.IsSecret(c[0], c[1]) {
			t.Errorf("%s: %s is shown", c[0], c[1])
		}
	}
}

// A reference is no literal secret, and neither is a value or name that merely resembles a secret.
func TestNotLiteral(t *testing.T) {
	for _, c := range [][2]string{{"password", "${file:/p}"}, {"password", "${P:-x}"}, {"password", "$P"},
		{"url", "postgres://u:$P@h/db"}, {"password", "a${P}"}, {"password", ""},
		{"url", "postgres://u:${file:/p}@h/db"},
		{"url", "postgres://u@h/db"}, {"url", "host=h password=${P}"}, {"key", "orders"},
		{"key", "orders:{{ .Metadata.region }}"}, {"positionKey", "p"}, {"partition.key", "id"},
		{"primaryKey", "id"}, {"aws.accessKeyId", "AKIA1"}, {"saslTokenURL", "https://h/oauth/token"},
		{"token", "https://h/token"}, {"password", "/etc/conduit/password"},
		{"token", "{{ .Metadata.token }}"}, {"format.options.password", "string"}, {"max_tokens", "100"},
		{"auth.token.enabled", "true"}, {"auth.token", "true"}, {"auth.hmac.header", "X-Signature"},
		{"script", "let password = r.password\nreturn token=1"}, {"expression", `token == "x"`},
		{"path", "/var/a:b@c/d"}, {"value", "at 10:30 x@y.z"}, {"session.timeout", "30s"}} {
		if spec.IsLiteralSecret(c[0], c[1]) {
			t.Errorf("%s: %s is taken for a secret", c[0], c[1])
		}
	}
}
