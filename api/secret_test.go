package api_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// TestSecretValues checks which values of settings with innocent names are shown.
func TestSecretValues(t *testing.T) {
	for value, hidden := range map[string]bool{
		"user:pw77@tcp(db:3306)/x":                  true,
		"user:pw77@unix(/tmp/mysql.sock)/x":         true,
		"user:pw77@/x":                              true,
		"user:pw77@db.example.com:5432/x":           true,
		"postgres://u:pw77@h/db":                    true,
		"postgres://u:pw/77@h/db":                   true,
		"postgres://u:pw:7?7@h/db":                  true,
		"redis://:pw77@h:6379":                      true,
		"host=h user=u password=pw77":               true,
		"AccountName=a;AccountKey=pw77":             true,
		"Endpoint=sb://h/;SharedAccessKey=pw77":     true,
		"jdbc:sqlserver://h;user=u;pwd=pw77":        true,
		`{"pass":"pw77"}`:                           true,
		`{"user":"u", "password": "pw77"}`:          true,
		"pass=pw77":                                 true,
		"Authorization: Bearer pw77":                true,
		"X-Header: Bearer pw77":                     true,
		"Basic dXNlcjpwdzc3":                        true,
		"https://h/?api_key=pw77":                   true,
		"https://h/?a=b&key=pw77":                   true,
		"https://h/c?sv=1&sig=pw77":                 true,
		"https://h/?access_token=pw77":              true,
		"-----BEGIN PRIVATE KEY-----\nMIIpw77":      true,
		"-----BEGIN RSA PRIVATE KEY-----\nMIIpw77":  true,
		"ghp_pw77pw77pw77":                          true,
		"https://ghp_pw77pw77@github.com/x":         true,
		"github_pat_11AApw77":                       true,
		"glpat-pw77pw77":                            true,
		"xoxb-12-pw77":                              true,
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.pw77": true,
		"1":                                      false,
		"1.5s":                                   false,
		"true":                                   false,
		"localhost:8080":                         false,
		"http://localhost:8080/path?a=b":         false,
		"http://[::1]:8080/":                     false,
		"https://user@host/path":                 false,
		"postgres://u@h/db?sslmode=disable":      false,
		"kafka-1:9092,kafka-2:9092":              false,
		"ops@example.com":                        false,
		"mailto:ops@example.com":                 false,
		"alpine:3@sha256:abcdef":                 false,
		"/var/lib/data":                          false,
		"arn:aws:s3:::bucket/key":                false,
		"primaryKey=id":                          false,
		"AccountName=a;SharedAccessKeyName=Root": false,
		"bypass=true":                            false,
		"record delivery failed":                 false,
		"the bearer of this record":              false,
		"basic":                                  false,
		"-----BEGIN CERTIFICATE-----\nMIIB":      false,
		"-----BEGIN PUBLIC KEY-----\nMIIB":       false,
		"{{ .Metadata.table }}":                  false,
		"SELECT id, token_count FROM t WHERE key = 'a'": false,
		"id,name,created_at":                            false,
		"${X}":                                          false,
		"prefix-${X}":                                   false,
		"${file:/etc/conduit/x}":                        false,
		"${RATE:-10}":                                   false,
		"${ENABLED:-true} ${PAUSE:-1.5s}":               false,
		"http://${HOST:-localhost}:${PORT:-8080}/":      false,
		"postgres://u:${PASSWORD:-pw77}@db/x":           true,
	} {
		w := newWorld(t)
		p := pipelineOf("p", spec.StatusStopped)
		p.Connectors[0].Settings = map[string]string{"sdk.value": value}
		w.fromFile("p.yaml", p)
		h := newServer(w).Handler()
		settings := do(h, "GET", "/v1/connectors/p:gen", "").decode(t)["config"].(map[string]any)["settings"].(map[string]any)
		if shown := settings["sdk.value"]; shown != map[bool]string{true: rest.Redacted, false: value}[hidden] {
			t.Errorf("%q is shown as %q", value, shown)
		}
		if file := string(do(h, "POST", "/v1/pipelines/p/export", "").body); hidden && strings.Contains(file, "pw77") {
			t.Errorf("%s", file)
		}
	}
}

// TestSecretNames checks which settings are secret whatever their value.
func TestSecretNames(t *testing.T) {
	w := newWorld(t)
	p := pipelineOf("p", spec.StatusStopped)
	names := map[string]bool{"password": true, "db.pass": true, "sasl.userPass": true, "headers.Authorization": true, "awsSecretAccessKey": true, "key": true,
		"passThrough": false, "partitionKey": false, "compass": false, "user": false, "author": false}
	p.Connectors[0].Settings = map[string]string{}
	for name := range names {
		p.Connectors[0].Settings[name] = "x"
	}
	w.fromFile("p.yaml", p)
	settings := do(newServer(w).Handler(), "GET", "/v1/connectors/p:gen", "").decode(t)["config"].(map[string]any)["settings"].(map[string]any)
	for name, hidden := range names {
		if shown := settings[name]; (shown == rest.Redacted) != hidden {
			t.Errorf("%s is shown as %q", name, shown)
		}
	}
}
