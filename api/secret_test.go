package api_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// secretValuesCases are the cases of TestSecretValues.
var secretValuesCases = map[string]bool{
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
}

// TestSecretValues checks which values of settings with innocent names are shown.
func TestSecretValues(t *testing.T) {
	for value, hidden := range secretValuesCases {
		w := newWorld(t)
		p := pipelineOf("p", spec.StatusStopped)
		p.Connectors[0].Settings = map[string]string{"sdk.value": value}
		w.fromFile("p.yaml", p)
		h := newServer(w).Handler()
		settings := do(h, "GET", "/v1/connectors/p:gen",
			"").decode(t)["config"].(map[string]any)["settings"].(map[string]any)
		if shown := settings["sdk.value"]; shown != map[bool]string{true: spec.Redacted, false: value}[hidden] {
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
	names := map[string]bool{"password": true, "db.pass": true, "sasl.userPass": true, "headers.Authorization": true,
		"awsSecretAccessKey": true, "key": true,
		"passThrough": false, "partitionKey": false, "compass": false, "user": false, "author": false}
	p.Connectors[0].Settings = map[string]string{}
	for name := range names {
		p.Connectors[0].Settings[name] = "x"
	}
	w.fromFile("p.yaml", p)
	settings := do(newServer(w).Handler(), "GET", "/v1/connectors/p:gen",
		"").decode(t)["config"].(map[string]any)["settings"].(map[string]any)
	for name, hidden := range names {
		if shown := settings[name]; (shown == spec.Redacted) != hidden {
			t.Errorf("%s is shown as %q", name, shown)
		}
	}
}

// TestReadersSeeHarmlessSettings plants values in settings whose names suggest no secrets, and requests every route
// that shows settings with both tokens.
func TestReadersSeeHarmlessSettings(t *testing.T) {
	w := newWorld(t)
	p := pipelineOf("p", spec.StatusRunning)
	p.Connectors[0].Settings = map[string]string{"rate": "1.5", "topic": "canary", "from": "${TOPIC}", "empty": ""}
	p.Connectors[1].Settings = map[string]string{"rate": "2.5", "rate.unit": "canary"}
	p.Connectors[1].Processors = []spec.Processor{{ID: "c", Plugin: "field.set",
		Settings: map[string]string{"value": "canary"}}}
	p.Processors = []spec.Processor{{ID: "m", Plugin: "field.set", Settings: map[string]string{"value": "canary"}}}
	p.DeadLetterQueue.Plugin, p.DeadLetterQueue.Settings = "standalone:unknown", map[string]string{"rate": "canary"}
	w.fromFile("p.yaml", p)
	second := *p.Clone()
	second.Connectors[0].Settings["topic"] = "canary-2"
	w.fromFile("p.yaml", second)
	w.states["p"] = spec.State{PipelineID: "p", Phase: spec.PhaseRunning,
		LastGood: &spec.LastGood{Generation: 1, Pipeline: p}}
	s := newServer(w)
	s.Tokens = withTokens("reader", "admin")
	h := s.Handler()
	for _, path := range []string{"/v1/connectors", "/v1/connectors/p:gen", "/v1/connectors/p:out", "/v1/processors",
		"/v1/processors/p:m", "/v1/processors/p:out:c",
		"/v1/pipelines/p/dead-letter-queue", "/v1/pipelines/p/status", "/v1/status", "/v1/pipelines/p/history",
		"/v1/pipelines/p/diff", "POST /v1/pipelines/p/export"} {
		method := "GET"
		if after, ok := strings.CutPrefix(path, "POST "); ok {
			method, path = "POST", after
		}
		admin := do(h, method, path, "", "Authorization", "Bearer admin")
		reader := do(h, method, path, "", "Authorization", "Bearer reader")
		if admin.status != 200 || reader.status != 200 || !strings.Contains(string(admin.body), "canary") {
			t.Errorf("%s: %d %s with the admin token, %d with the read token", path, admin.status, admin.body,
				reader.status)
		}
		if strings.Contains(string(reader.body), "canary") {
			t.Errorf("%s shows a reader %s", path, reader.body)
		}
	}
	settings := do(h, "GET", "/v1/connectors/p:gen", "", "Authorization",
		"Bearer reader").decode(t)["config"].(map[string]any)["settings"].(map[string]any)
	if want := map[string]any{"rate": "1.5", "topic": spec.Redacted, "from": "${TOPIC}",
		"empty": ""}; !reflect.DeepEqual(settings, want) {
		t.Errorf("a reader sees %v, want %v", settings, want)
	}
}
