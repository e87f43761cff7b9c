package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
)

// A password with every character that has a meaning in URLs works, and a failed connection shows no part of the
// password in the log, in answers of the API, or on disk.
func TestPartsOfSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	parts := []string{"hunter2", "s3cret", "Xk9", "7yQ", "p4ss", "w0rd"}
	password := "hunter2@s3cret.x/Xk9-aB?7yQz#p4ss:w0rd%41&"
	l, err := net.Listen("tcp", "127.0.0.1:0") // closed below: no listener
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	dir := agenttest.NewDir(t)
	w := startWeb(t, dir, agenttest.RetryLater)
	file := w.Path("secret")
	whole := w.Path("url")
	for path, text := range map[string]string{file: password, whole: "postgres://u:" + password + "@" + address +
		"/d"} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port, _ := net.SplitHostPort(address)
	ref := "${file:" + file + "}"
	sources := map[string]string{
		"url": `plugin: postgres, settings: {tables: t, url: "postgres://u:` + ref + "@" + address +
			`/d?sslmode=disable"}`,
		"query": `plugin: postgres, settings: {tables: t, url: "postgres://` + address +
			`/d?user=u&sslmode=disable&password=` + ref + `"}`,
		"pairs": `plugin: postgres, settings: {tables: t, url: "host=` + host + ` port=` + port +
			` user=u sslmode=disable password=` + ref + `"}`,
		"whole":   `plugin: postgres, settings: {tables: t, url: "${file:` + whole + `}"}`,
		"literal": `plugin: postgres, settings: {tables: t, url: 'postgres://u:` + password + "@" + address + `/d'}`,
		"http":    `plugin: http, settings: {url: "http://u:` + ref + "@" + address + "/" + ref + "?k=" + ref + `"}`,
		"badhost": `plugin: http, settings: {url: "http://` + ref + `/x"}`,
		"nats":    `plugin: nats, settings: {stream: s, url: "nats://u:` + ref + "@" + address + `"}`,
		"redis":   `plugin: redis, settings: {key: k, url: "redis://:` + ref + "@" + address + `"}`,
		"mqtt":    `plugin: mqtt, settings: {topics: t, url: "mqtt://u:` + ref + "@" + address + `"}`,
		"s3": `plugin: s3, settings: {aws.region: r, aws.bucket: b, aws.accessKeyId: i, aws.secretAccessKey: "` +
			ref + `", aws.endpoint: "http://u:` + ref + "@" + address + `"}`,
		"kafka": `plugin: kafka, settings: {topics: t, servers: "` + ref + `"}`,
		"mysql": `plugin: mysql, settings: {database: d, user: u, address: "` + ref + `"}`,
	}
	for id, source := range sources {
		w.Save(id+".yaml", fmt.Sprintf("version: \"2.2\"\npipelines:\n  - id: %s\n    connectors:\n      - {id: in, "+
			"type: source, %s}\n      - {id: out, type: destination, plugin: log}\n", id, source))
	}
	for id := range sources {
		w.Wait(id+" to be tried", func() bool {
			a := w.State(id).LastAttempt
			// it polls again without a restart
			return a != nil && (a.Error != "" || strings.Contains(sources[id], "plugin: http,"))
		})
		for _, want := range map[string][]string{"url": {host}, "query": {host}, "pairs": {host}}[id] {
			if text := w.State(id).LastAttempt.Error; !strings.Contains(text, want) {
				t.Errorf("%s does not try %s: %s", id, want, text)
			}
		}
	}
	look := func(where, text string) {
		for _, part := range parts {
			if i := strings.Index(text, part); i >= 0 {
				t.Errorf("%s shows %q: …%s…", where, part, text[max(0, i-150):min(len(text), i+50)])
			}
		}
	}
	for id := range sources {
		for _, path := range []string{"/v1/pipelines/" + id + "/status", "/v1/pipelines/" + id, "/v1/connectors/" + id +
			":in"} {
			look(path, w.Do("GET", path, "").Body)
		}
	}
	for _, path := range []string{"/v1/pipelines", "/v1/events", "/metrics", "/v1/files"} {
		look(path, w.Do("GET", path, "").Body)
	}
	w.Stop()
	look("the log", w.Log())
	reports, _ := filepath.Glob(dir + "/conduit.db.status/*")
	for _, path := range reports {
		b, _ := os.ReadFile(path)
		look(path, string(b))
	}
}
