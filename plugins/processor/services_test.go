package processor_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// service is a processor that calls a service, with all its settings. URL stands for the URL of the server. The first
// response to each processor is 503.
type service struct {
	settings  map[string]string
	path      string
	answer    string
	requested string // content of the second request, headers first
	out       string // the record as JSON; bytes in a field are base64
}

const backoffOfServices = "backoffRetry.count: 2, backoffRetry.factor: 1.5, backoffRetry.min: 1ms, " +
	"backoffRetry.max: 2ms"

// settingsOf parses "name: value, name: value".
func settingsOf(texts ...string) map[string]string {
	settings := map[string]string{}
	for _, pair := range strings.Split(strings.Join(texts, ", "), ", ") {
		name, value, _ := strings.Cut(pair, ": ")
		settings[name] = value
	}
	return settings
}

const openaiSettings = "api_key: secret, base_url: URL/v1, model: m, field: .Payload.After.text, user: u, " +
	"max_retries: 1, initial_backoff: 1, max_backoff: 2, backoff_factor: 1, timeout: 10s"

var services = map[string]service{
	"ollama": {
		settings: settingsOf("url: URL, model: llama3.2, field: .Payload.After, prompt: add one, timeout: 10s",
			backoffOfServices),
		path: "/api/generate", answer: `{"done":true,"response":"{\"text\":\"more\"}"}`,
		requested: `"format":"json","model":"llama3.2"`, out: `{"after":{"text":"more"}}`,
	},
	"openai.embeddings": {
		settings: settingsOf(openaiSettings, "dimensions: 2, encoding_format: float"),
		path:     "/v1/embeddings", answer: `{"data":[{"index":0,"embedding":[0.1,0.2]}]}`,
		requested: `Bearer secret {"dimensions":2,"encoding_format":"float","input":"hello","model":"m","user":"u"}`,
		out:       `{"after":{"text":"[0.1,0.2]"}}`,
	},
	"openai.textgen": {
		settings: settingsOf(openaiSettings,
			"developer_message: shout, max_tokens: 1, max_completion_tokens: 2, n: 3, seed: 4, top_log_probs: 5",
			"temperature: 0.5, top_p: 0.25, presence_penalty: 1.5, frequency_penalty: -1.5, stop: a, logit_bias.7: "+
				"-8, log_probs: true, store: false",
			"reasoning_effort: low, strict_output: true, stream: true, metadata.a: b"),
		path: "/v1/chat/completions", answer: `{"choices":[{"message":{"role":"assistant","content":"HELLO"}}]}`,
		requested: `Bearer secret ` +
			`{"frequency_penalty":-1.5,"logit_bias":{"7":-8},"logprobs":true,"max_completion_tokens":2,"max_tokens":1,` +
			`"messages":[{"content":"shout","role":"developer"},{"content":"hello","role":"user"}],"model":"m","n":3,` +
			`"presence_penalty":1.5,` +
			`"reasoning_effort":"low","seed":4,"stop":["a"],"store":false,"temperature":0.5,"top_logprobs":5,"top_p":0.25,` +
			`"user":"u"}`,
		out: `{"after":{"text":"HELLO"}}`,
	},
	"cohere.command": {
		settings: settingsOf("apiKey: secret, baseURL: URL, model: m, prompt: answer %s, request.body: "+
			".Payload.After.text, response.body: .Key, timeout: 10s", backoffOfServices),
		path: "/v2/chat", answer: `{"message":{"role":"assistant","content":[{"type":"text","text":"hi"}]}}`,
		requested: `Bearer secret {"messages":[{"content":"answer hello","role":"user"}],"model":"m","stream":false}`,
		out:       `{"key":"hi","after":{"text":"hello"}}`,
	},
	"cohere.embed": {
		settings: settingsOf("apiKey: secret, baseURL: URL, model: m, inputType: search_query, inputField: "+
			".Payload.After.text, outputField: .Payload.Before, maxTextsPerRequest: 1, timeout: 10s",
			backoffOfServices),
		path: "/v2/embed", answer: `{"embeddings":{"float":[[0.1,0.2]]}}`,
		requested: `Bearer secret ` +
			`{"embedding_types":["float"],"input_type":"search_query","model":"m","texts":["hello"]}`,
		out: `{"metadata":{"cohere.embed.model":"m"},"before":"bytes of zstd","after":{"text":"hello"}}`,
	},
	"cohere.rerank": {
		settings: settingsOf("apiKey: secret, baseURL: URL, model: m, query: q, request.body: .Payload.After.text, "+
			"response.body: .Payload.After.score, timeout: 10s", backoffOfServices),
		path: "/v2/rerank", answer: `{"results":[{"index":0,"relevance_score":0.9}]}`,
		requested: `Bearer secret {"documents":["hello"],"model":"m","query":"q"}`,
		out: `{"after":{"score":"eyJkb2N1bWVudCI6eyJ0ZXh0IjoiaGVsbG8ifSwiaW5kZXgiOjAsInJlbGV2YW5jZV9zY29yZSI6MC45fQ==",` +
			`"text":"hello"}}`,
	},
	"webhook.http": {
		settings: settingsOf("request.url: URL/send/{{ .Payload.After.text }}, request.method: PUT, request.body: "+
			"x{{ .Payload.After.text }}, request.contentType: text/plain",
			"request.timeout: 10s, headers.Authorization: Bearer secret, response.body: .Payload.After.answer, "+
				"response.status: .Metadata.status, response.acceptStatus: 404",
			"response.maxBytes: 100", backoffOfServices),
		path: "/send/hello", answer: "text", requested: `PUT text/plain Bearer secret xhello`,
		out: `{"metadata":{"status":"200"},"after":{"answer":"dGV4dA==","text":"hello"}}`,
	},
	"enrich.http": {
		settings: settingsOf("url: URL/of/{{ .Payload.After.text }}, headers.Authorization: Bearer secret, target: "+
			".Payload.After.more, body: text, timeout: 10s, maxBytes: 100",
			"missing: refuse, cache.ttl: 1h, cache.size: 2, retries: 2, backoff.min: 1ms, backoff.max: 2ms"),
		path: "/of/hello", answer: "text", requested: `GET`, out: `{"after":{"more":"text","text":"hello"}}`,
	},
}

// Every processor that calls a service runs with all its settings, and retries when it gets no response.
func TestServices(t *testing.T) {
	for _, plugin := range processors.All() {
		if s, ok := services[plugin.Name]; ok {
			t.Run(plugin.Name, func(t *testing.T) { s.test(t, plugin) })
		}
	}
}

func (s service) test(t *testing.T, plugin sdk.ProcessorPlugin) {
	wantEverySetting(t, plugin, s.settings)
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var v any
		if json.Unmarshal(body, &v) == nil {
			body, _ = json.Marshal(v)
		}
		requests = append(requests, fmt.Sprint(r.Method, " ", r.Header.Get("Content-Type"), " ",
			r.Header.Get("Authorization"), " ", string(body)))
		switch {
		case r.URL.Path != s.path:
			http.Error(w, "not here: "+r.URL.Path, http.StatusTeapot)
		case len(requests) == 1:
			http.Error(w, "later", http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, s.answer)
		}
	}))
	defer server.Close()
	settings := map[string]string{}
	for name, value := range s.settings {
		settings[name] = strings.Replace(value, "URL", server.URL, 1)
	}
	declared := []spec.Processor{{ID: "x", Plugin: plugin.Name, Settings: settings}}
	o := processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Timeout: time.Minute}
	if problems := o.Registry.Check(t.Context(), "", declared); len(problems) > 0 {
		t.Fatalf("the declaration has problems: %v", problems)
	}
	c, err := processor.Open(t.Context(), "p", declared, o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Process(t.Context(), 1, []record.Record{{After: record.Structured(map[string]any{"text": "hello"})}})
	if err != nil || len(out.Refused) > 0 || len(out.Records) != 1 {
		t.Fatalf("outcome %+v, error %v, requests %q", out, err, requests)
	}
	if len(requests) != 2 || !strings.Contains(requests[1], s.requested) {
		t.Errorf("requests are %q, want two, the second with\n%s", requests, s.requested)
	}
	if d := cmp.Diff(s.out, plainly(t, out.Records[0])); d != "" {
		t.Error(d)
	}
}

// plainly returns the parts of a record that are set.
func plainly(t *testing.T, r record.Record) string {
	t.Helper()
	var parts []string
	add := func(name string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, fmt.Sprintf("%q:%s", name, b))
	}
	if len(r.Metadata) > 0 {
		add("metadata", r.Metadata.Map())
	}
	for _, d := range []struct {
		name string
		data record.Data
	}{{"key", r.Key}, {"before", r.Before}, {"after", r.After}} {
		if m, ok := d.data.Structured(); ok {
			add(d.name, m)
		} else if b, ok := d.data.Raw(); ok && strings.HasPrefix(string(b), "\x28\xb5\x2f\xfd") {
			add(d.name, "bytes of zstd")
		} else if ok {
			add(d.name, string(b))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}
