package kill_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// receiver takes the logs and points of other protocols and stores their numbers in an apiServer.
type receiver struct {
	*apiServer

	mu       sync.Mutex
	accepted [][]string // guarded by mu: lines of events that await the question for their acknowledgement, by ackId
}

// withTelemetry returns a handler that receives logs for Loki, Splunk and Datadog, points for InfluxDB and samples for
// Prometheus, and passes on other requests.
func withTelemetry(s *apiServer, other http.Handler) http.Handler {
	r := &receiver{apiServer: s}
	mux := http.NewServeMux()
	mux.Handle("/", other)
	for path, receive := range map[string]struct {
		header string
		take   func(body []byte) (response string, err error)
	}{
		"/loki/api/v1/push":         {"Authorization: Bearer ", r.takeStreams},
		"/api/v1/write":             {"Authorization: Bearer ", r.takeSamples},
		"/api/v2/logs":              {"Dd-Api-Key: ", r.takeLogs},
		"/api/v2/write":             {"Authorization: Token ", r.takePoints},
		"/services/collector/event": {"Authorization: Splunk ", r.takeEvents},
		"/services/collector/ack":   {"Authorization: Splunk ", r.acknowledge},
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, q *http.Request) {
			name, prefix, _ := strings.Cut(receive.header, ": ")
			token, err := os.ReadFile("token")
			if err != nil || q.Header.Get(name) != prefix+string(token) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			body, err := io.ReadAll(q.Body)
			if err != nil {
				return
			}
			response, err := receive.take(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, response)
		})
	}
	return mux
}

// put stores lines, once if the key is not empty.
func (r *receiver) put(key string, lines ...string) error {
	r.apiServer.mu.Lock()
	defer r.apiServer.mu.Unlock()
	return r.store(key, strings.Join(lines, "\n")+"\n")
}

func (r *receiver) takeStreams(body []byte) (string, error) {
	var push struct {
		Streams []struct{ Values [][]string }
	}
	if err := json.Unmarshal(body, &push); err != nil {
		return "", err
	}
	for _, stream := range push.Streams {
		for _, value := range stream.Values {
			// The server keeps one of lines with the same time and text.
			if err := r.put(value[0]+" "+value[1], value[1]); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

func (r *receiver) takeLogs(body []byte) (string, error) {
	var logs []json.RawMessage
	if err := json.Unmarshal(body, &logs); err != nil {
		return "", err
	}
	var lines []string
	for _, log := range logs {
		lines = append(lines, string(log))
	}
	return "", r.put("", lines...)
}

// takePoints keeps one of points with the same series and time, as the server does, but the first one.
func (r *receiver) takePoints(body []byte) (string, error) {
	for line := range strings.Lines(string(body)) {
		words := strings.Fields(line)
		at := words[len(words)-1]
		fields, err := fieldsOf(line)
		if err != nil {
			return "", err
		}
		if err := r.put(words[0]+" "+at, fields); err != nil {
			return "", err
		}
	}
	return "", nil
}

// fieldsOf returns the field n of a point as JSON.
func fieldsOf(line string) (string, error) {
	_, fields, _ := strings.Cut(line, " ")
	var n int
	for _, field := range strings.Split(fields, ",") {
		if _, err := fmt.Sscanf(field, "n=%d", &n); err == nil {
			return fmt.Sprintf(`{"n":%d}`, n), nil
		}
	}
	return "", fmt.Errorf("the point %q has no field n", line)
}

func (r *receiver) takeEvents(body []byte) (string, error) {
	var lines []string
	for d := json.NewDecoder(strings.NewReader(string(body))); ; {
		var event struct{ Event json.RawMessage }
		err := d.Decode(&event)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		lines = append(lines, string(event.Event))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = append(r.accepted, lines)
	return fmt.Sprintf(`{"text":"Success","code":0,"ackId":%d}`, len(r.accepted)-1), nil
}

// acknowledge stores the events of a request and acknowledges them. Until then a kill loses them.
func (r *receiver) acknowledge(body []byte) (string, error) {
	var question struct{ Acks []int }
	if err := json.Unmarshal(body, &question); err != nil || len(question.Acks) != 1 {
		return "", fmt.Errorf("the question is %q", body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := question.Acks[0]
	if id >= len(r.accepted) || r.accepted[id] == nil {
		return fmt.Sprintf(`{"acks":{"%d":false}}`, id), nil
	}
	if err := r.put("", r.accepted[id]...); err != nil {
		return "", err
	}
	r.accepted[id] = nil
	return fmt.Sprintf(`{"acks":{"%d":true}}`, id), nil
}

// runReceiver runs the case of a destination that sends to a receiver. The setting url is the path at the receiver.
func runReceiver(t *testing.T, plugin string, settings func(token string) map[string]string) {
	t.Helper()
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, toReceiver(plugin, settings))
}

// toReceiver returns the case of a destination that sends to a receiver.
func toReceiver(plugin string, settings func(token string) map[string]string) kill.Destination {
	return kill.Destination{
		Plugin: plugin, Reread: true,
		System: func(t *testing.T, dir string) *kill.System {
			a := startAPI(t, dir)
			return &kill.System{
				Addr: a.addr, Server: a, Rotate: a.rotate, Stored: a.stored,
				Settings: func(addr string) map[string]string {
					all := settings("${file:" + a.token + "}")
					all["url"], all["timeout"], all["retry.timeout"] = "http://"+addr+all["url"], "2s", "1s"
					return all
				},
			}
		},
	}
}

func TestLokiDestination(t *testing.T) {
	runReceiver(t, "builtin:loki", func(token string) map[string]string {
		return map[string]string{"labels.job": "ledger", "auth.token": token}
	})
}

func TestDatadogDestination(t *testing.T) {
	runReceiver(t, "builtin:datadog", func(token string) map[string]string {
		return map[string]string{"auth.apiKey": token}
	})
}

func TestInfluxDBDestination(t *testing.T) {
	runReceiver(t, "builtin:influxdb", func(token string) map[string]string {
		return map[string]string{"org": "o", "bucket": "b", "measurement": "ledger", "auth.token": token}
	})
}

// TestSplunkDestination sends events that the collector loses until it has acknowledged them.
func TestSplunkDestination(t *testing.T) {
	runReceiver(t, "builtin:splunk", func(token string) map[string]string {
		return map[string]string{"auth.hecToken": token, "acknowledge": "true", "acknowledge.timeout": "1s"}
	})
}

// runExample runs the example of a connector's page with two lines. url and token are the texts to replace in it.
func runExample(t *testing.T, page, url, token string) {
	t.Helper()
	load.Parallel(t, load.Agent+load.Server)
	dir := t.TempDir()
	s, a := startAPI(t, dir), agenttest.Start(t, "")
	file := replace(t, replace(t, example(t, page), url, "http://"+s.addr), token, s.token)
	file = replace(t, file, "path: /var/log/app.log", "path: "+a.Path("app.log"))
	if err := os.WriteFile(a.Path("app.log"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Save("logs.yaml", file)
	a.Wait("both lines", func() bool {
		stored, _ := os.ReadFile(s.dir + "/stored")
		return strings.Count(string(stored), "\n") == 2 && strings.Contains(string(stored), "two")
	})
}

func TestLokiExample(t *testing.T) {
	runExample(t, "plugins/builtin/loki/README.md", "http://loki.example.com:3100", "/etc/conduit/loki-token")
}

func TestDatadogExample(t *testing.T) {
	runExample(t, "plugins/builtin/datadog/README.md", "https://http-intake.logs.datadoghq.eu",
		"/etc/conduit/datadog-key")
}

func TestSplunkExample(t *testing.T) {
	runExample(t, "plugins/builtin/splunk/README.md", "https://splunk.example.com:8088", "/etc/conduit/hec-token")
}

// TestInfluxDBExample runs the example of the connector's page with one reading.
func TestInfluxDBExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	dir := t.TempDir()
	s, a := startAPI(t, dir), agenttest.Start(t, "")
	m := startMosquitto(t, t.TempDir(), "")
	file := example(t, "plugins/builtin/influxdb/README.md")
	file = replace(t, file, "http://influx.example.com:8086", "http://"+s.addr)
	file = replace(t, file, "/etc/conduit/influx-token", s.token)
	file = replace(t, file, "mqtt://broker.example.com:1883", "mqtt://"+m.Addr+"\n          clientID: hall")
	file = replace(t, file, "/etc/conduit/mqtt-password", m.password)
	m.subscribe("hall", "hall/+/climate")
	a.Save("climate.yaml", file)
	if err := m.publish(t.Context(), "hall/3/climate", `{"n": 7, "celsius": 21.5}`); err != nil {
		t.Fatal(err)
	}
	a.Wait("the point", func() bool {
		stored, _ := os.ReadFile(s.dir + "/stored")
		return strings.HasPrefix(string(stored), `climate,topic=hall/3/climate `) &&
			strings.HasSuffix(string(stored), "\t{\"n\":7}\n")
	})
}
