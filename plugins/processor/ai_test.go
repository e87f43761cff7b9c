package processor_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/processor/ai"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const token = "t0p-secret"

// fake is a server that speaks the protocol of a service: it checks the path and the token, keeps the requests, and
// responds with the result of answer.
type fake struct {
	*httptest.Server
	path, authorization string
	answer              func(request map[string]any) (status int, answer any)

	mu       sync.Mutex
	requests []map[string]any
}

func aiServe(t *testing.T, path, authorization string, answer func(map[string]any) (int, any)) *fake {
	f := &fake{path: path, authorization: authorization, answer: answer}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request map[string]any
	err := json.Unmarshal(body, &request)
	status, answer := http.StatusNotFound,
		any(map[string]any{"error": fmt.Sprintf("%s %s %q %v", r.Method, r.URL.Path, r.Header.Get("Authorization"),
			err)})
	if err == nil && r.Method == http.MethodPost && r.URL.Path == f.path &&
		r.Header.Get("Authorization") == f.authorization && r.Header.Get("Content-Type") == "application/json" {
		f.mu.Lock()
		f.requests = append(f.requests, request)
		f.mu.Unlock()
		status, answer = f.answer(request)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func aiConfigure(t testing.TB, name string, settings map[string]string) (sdk.Processor, error) {
	for _, plugin := range ai.Plugins() {
		if plugin.Name == name {
			p := plugin.New()
			params := p.Parameters()
			if errs := params.Check(settings); len(errs) > 0 {
				return p, errs[0]
			}
			return p, p.Configure(t.Context(), params.ApplyDefaults(settings))
		}
	}
	t.Fatalf("there is no %s", name)
	return nil, nil
}

func aiProcess(t testing.TB, name string, settings map[string]string, records ...record.Record) []sdk.Fate {
	t.Helper()
	p, err := aiConfigure(t, name, settings)
	if err != nil {
		t.Fatal(err)
	}
	return plugintest.Process(t, p, records...)
}

func raws(texts ...string) (records []record.Record) {
	for _, text := range texts {
		records = append(records, record.Record{Position: record.Position("p"), After: record.Raw([]byte(text))})
	}
	return records
}

func after(r record.Record) string {
	b, _ := r.After.Raw()
	return string(b)
}

func wantRequests(t *testing.T, f *fake, want ...string) {
	t.Helper()
	got := make([]string, len(f.requests))
	for i, r := range f.requests {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = string(b)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("requests:\n%s", d)
	}
}

func TestOllama(t *testing.T) {
	f := aiServe(t, "/api/generate", "", func(r map[string]any) (int, any) {
		return 200, map[string]any{"done": true, "response": `{"test-field": 124}`}
	})
	for _, in := range []record.Record{
		{After: record.Structured(map[string]any{"test-field": 123})},
		{After: record.Raw([]byte(`{"test-field":123}`))},
	} {
		f.requests = nil
		records := []record.Record{in}
		fate := aiProcess(t, "ollama", map[string]string{"url": f.URL + "/", "prompt": "add one"}, records...)[0]
		if m, _ := records[0].After.Structured(); fate.Kind != sdk.Kept || m["test-field"] != 124.0 {
			t.Fatalf("%+v, %v", fate, records[0].Map())
		}
		prompt, _ := f.requests[0]["prompt"].(string)
		delete(f.requests[0], "prompt")
		wantRequests(t, f, `{"format":"json","model":"llama3.2","stream":false}`)
		if !strings.HasPrefix(prompt, "Instructions: {add one}\n Record: {{\"test-field\":123}}\n Suffix {") {
			t.Errorf("prompt is %q", prompt)
		}
	}
}

func TestOllamaRefuses(t *testing.T) {
	answers := map[string]any{
		"it is incomplete":                map[string]any{"done": false, "response": "{}"},
		"model: it is not a JSON object":  map[string]any{"done": true, "response": "[1]"},
		"server: it is not a JSON object": "text",
	}
	for want, answer := range answers {
		f := aiServe(t, "/api/generate", "", func(map[string]any) (int, any) { return 200, answer })
		fate := aiProcess(t, "ollama", map[string]string{"url": f.URL}, raws("{}")...)[0]
		if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), want) {
			t.Errorf("fate is %+v, want %q", fate, want)
		}
	}
	for _, text := range []string{"text", "[1]"} {
		fate := aiProcess(t, "ollama", map[string]string{"url": "http://127.0.0.1:1"}, raws(text)...)[0]
		if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), "it is not an object") {
			t.Errorf("%s: fate is %+v", text, fate)
		}
	}
}

func openai(f *fake, more ...string) map[string]string {
	settings := map[string]string{"base_url": f.URL + "/v1", "api_key": token, "model": "m", "initial_backoff": "1",
		"max_backoff": "2"}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return settings
}

func chatAnswer(text any) map[string]any {
	return map[string]any{"choices": []any{map[string]any{"message": map[string]any{"role": "assistant",
		"content": text}}}}
}

func TestOpenAITextgen(t *testing.T) {
	f := aiServe(t, "/v1/chat/completions", "Bearer "+token, func(r map[string]any) (int, any) {
		messages := r["messages"].([]any)
		return 200, chatAnswer(strings.ToUpper(messages[1].(map[string]any)["content"].(string)))
	})
	records := append(raws("hello world"), record.Record{After: record.Structured(map[string]any{"a": 1})})
	fates := aiProcess(t, "openai.textgen",
		openai(f, "developer_message", "uppercase", "max_tokens", "5", "temperature", "0", "stop", "a,b",
			"logit_bias.50256", "-100", "store", "false", "stream", "true", "metadata.x", "y"), records...)
	if fates[0].Kind != sdk.Kept || after(records[0]) != "HELLO WORLD" || after(records[1]) != `{"A":1}` {
		t.Errorf("%+v, %v", fates, records)
	}
	const rest = `"model":"m","stop":["a","b"],"store":false,"temperature":0}`
	wantRequests(t, f,
		`{"logit_bias":{"50256":-100},"max_tokens":5,"messages":[{"content":"uppercase","role":"developer"},`+
			`{"content":"hello world","role":"user"}],`+rest,
		`{"logit_bias":{"50256":-100},"max_tokens":5,"messages":[{"content":"uppercase","role":"developer"},`+
			`{"content":"{\"a\":1}","role":"user"}],`+rest)
	f.answer = func(map[string]any) (int, any) { return 200, chatAnswer(nil) }
	fate := aiProcess(t, "openai.textgen", openai(f, "developer_message", "x"), raws("x")...)[0]
	if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), "it has no text") {
		t.Errorf("fate is %+v", fate)
	}
	fate = aiProcess(t, "openai.textgen", openai(f, "developer_message", "x"), record.Record{})[0]
	if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), "the record has no .Payload.After") {
		t.Errorf("fate is %+v", fate)
	}
}

func TestOpenAIEmbeddings(t *testing.T) {
	const want = "[0.1,0.2,0.3,0.4,0.5]"
	f := aiServe(t, "/v1/embeddings", "Bearer "+token, func(r map[string]any) (int, any) {
		embedding := any([]float64{0.1, 0.2, 0.3, 0.4, 0.5})
		if r["encoding_format"] == "base64" {
			var b []byte
			for _, x := range []float32{0.1, 0.2, 0.3, 0.4, 0.5} {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			embedding = base64.StdEncoding.EncodeToString(b)
		}
		return 200, map[string]any{"data": []any{map[string]any{"index": 0, "embedding": embedding}}}
	})
	for _, settings := range []map[string]string{openai(f),
		openai(f, "encoding_format", "base64", "dimensions", "5", "user", "u")} {
		records := raws("text")
		if fate := aiProcess(t, "openai.embeddings", settings, records...)[0]; fate.Kind != sdk.Kept ||
			after(records[0]) != want {
			t.Errorf("%+v, %s", fate, after(records[0]))
		}
	}
	wantRequests(t, f, `{"input":"text","model":"m"}`,
		`{"dimensions":5,"encoding_format":"base64","input":"text","model":"m","user":"u"}`)
	f.answer = func(map[string]any) (int, any) { return 200, map[string]any{"data": []any{}} }
	if fate := aiProcess(t, "openai.embeddings", openai(f), raws("x")...)[0]; fate.Kind != sdk.Refused {
		t.Errorf("fate is %+v", fate)
	}
}

func TestOpenAIRetries(t *testing.T) {
	status, fails := 429, 2
	f := aiServe(t, "/v1/embeddings", "Bearer "+token, nil)
	f.answer = func(map[string]any) (int, any) {
		if len(f.requests)%(fails+1) != 0 {
			return status, map[string]any{"error": map[string]any{"message": "bad " + token}}
		}
		return 200, map[string]any{"data": []any{map[string]any{"embedding": []float64{1}}}}
	}
	records := raws("a", "b") // each record has its own attempts
	for _, fate := range aiProcess(t, "openai.embeddings", openai(f, "max_retries", "2"), records...) {
		if fate.Kind != sdk.Kept || len(f.requests) != 6 {
			t.Errorf("%+v after %d requests", fate, len(f.requests))
		}
	}
	f.requests = nil
	fate := aiProcess(t, "openai.embeddings", openai(f, "max_retries", "1"), raws("a")...)[0]
	if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), "429") ||
		!strings.Contains(fate.Err.Error(), "the last of 2 tries") || len(f.requests) != 2 {
		t.Errorf("%+v after %d requests", fate, len(f.requests))
	}
	for _, status = range []int{400, 401, 403, 404, 422} {
		f.requests = nil
		fate = aiProcess(t, "openai.embeddings", openai(f), raws("a")...)[0]
		if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), fmt.Sprint(status)) || len(f.requests) != 1 {
			t.Errorf("%+v after %d requests", fate, len(f.requests))
		}
	}
}

func cohere(f *fake, more ...string) map[string]string {
	settings := map[string]string{"baseURL": f.URL, "apiKey": token, "backoffRetry.min": "1ms",
		"backoffRetry.max": "2ms"}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return settings
}

func TestCohereCommand(t *testing.T) {
	f := aiServe(t, "/v2/chat", "Bearer "+token, func(r map[string]any) (int, any) {
		return 200, map[string]any{"message": map[string]any{"role": "assistant",
			"content": []any{map[string]any{"type": "text", "text": "I am a test"}}}}
	})
	for prompt, want := range map[string]string{
		"answer: %s":      "answer: who are you?",
		"100%% of %s, %d": "100% of who are you?, %d",
		"no place":        "no place\nwho are you?",
		"%%s":             "%s\nwho are you?",
		"%%%s":            "%who are you?",
	} {
		f.requests = nil
		records := raws("who are you?")
		settings := cohere(f, "prompt", prompt, "response.body", ".Payload.Before")
		if fate := aiProcess(t, "cohere.command", settings, records...)[0]; fate.Kind != sdk.Kept {
			t.Errorf("fate is %+v", fate)
		}
		if b, _ := records[0].Before.Raw(); string(b) != "I am a test" || after(records[0]) != "who are you?" {
			t.Errorf("got %v", records[0].Map())
		}
		content, _ := json.Marshal(want)
		wantRequests(t, f, fmt.Sprintf(`{"messages":[{"content":%s,"role":"user"}],"model":"command","stream":false}`,
			content))
	}
	f.answer = func(map[string]any) (int, any) { return 200, map[string]any{"message": map[string]any{}} }
	if fate := aiProcess(t, "cohere.command", cohere(f, "prompt", "x"), raws("x")...)[0]; fate.Kind != sdk.Refused ||
		!strings.Contains(fate.Err.Error(), "it is not exactly one text") {
		t.Errorf("fate is %+v", fate)
	}
}

func embedded(r map[string]any) (int, any) {
	var all []any
	for _, text := range r["texts"].([]any) {
		if text == "bad" {
			return 422, map[string]any{"message": "bad text"}
		}
		all = append(all, []float64{0.1, 0.2, float64(len(text.(string)))})
	}
	return 200, map[string]any{"id": "x", "embeddings": map[string]any{"float": all}}
}

func unpack(t *testing.T, r record.Record) string {
	t.Helper()
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b, _ := r.After.Raw()
	text, err := d.DecodeAll(b, nil)
	if err != nil {
		t.Fatalf("cannot unpack %q: %v", b, err)
	}
	return string(text)
}

func TestCohereEmbed(t *testing.T) {
	f := aiServe(t, "/v2/embed", "Bearer "+token, embedded)
	records := raws("a", "bb", "ccc")
	aiProcess(t, "cohere.embed", cohere(f, "maxTextsPerRequest", "2"), records...)
	for i, r := range records {
		if got, want := unpack(t, r), fmt.Sprintf("[0.1,0.2,%d]", i+1); got != want ||
			r.Metadata.Get("cohere.embed.model") != "embed-english-v2.0" {
			t.Errorf("record %d: %s, %v", i, got, r.Metadata)
		}
	}
	wantRequests(t, f,
		`{"embedding_types":["float"],"model":"embed-english-v2.0","texts":["a","bb"]}`,
		`{"embedding_types":["float"],"model":"embed-english-v2.0","texts":["ccc"]}`)
	f.requests = nil
	aiProcess(t, "cohere.embed", cohere(f, "model", "embed-v4.0", "inputType", "search_query"), raws("a")...)
	wantRequests(t, f, `{"embedding_types":["float"],"input_type":"search_query","model":"embed-v4.0","texts":["a"]}`)
}

// If the service refuses one text, the other records of the request still pass.
func TestCohereEmbedRefusesOne(t *testing.T) {
	f := aiServe(t, "/v2/embed", "Bearer "+token, embedded)
	records := append(raws("a", "bad", "ccc"), record.Record{})
	fates := aiProcess(t, "cohere.embed", cohere(f), records...)
	for i, want := range []sdk.FateKind{sdk.Kept, sdk.Refused, sdk.Kept, sdk.Refused} {
		if fates[i].Kind != want {
			t.Errorf("fate of %d is %+v, want %v", i, fates[i], want)
		}
	}
	if unpack(t, records[2]) != "[0.1,0.2,3]" || after(records[1]) != "bad" ||
		!strings.Contains(fates[1].Err.Error(), "bad text") {
		t.Errorf("%+v, %v", fates, records)
	}
	f.answer = func(map[string]any) (int, any) {
		return 200, map[string]any{"embeddings": map[string]any{"float": []any{}}}
	}
	if fate := aiProcess(t, "cohere.embed", cohere(f), raws("a")...)[0]; fate.Kind != sdk.Refused ||
		!strings.Contains(fate.Err.Error(), "0 embeddings for 1 texts") {
		t.Errorf("fate is %+v", fate)
	}
}

func TestCohereRetries(t *testing.T) {
	f := aiServe(t, "/v2/embed", "Bearer "+token, nil)
	f.answer = func(r map[string]any) (int, any) {
		if len(f.requests) == 1 {
			return 500, map[string]any{"message": "later"}
		}
		return embedded(r)
	}
	fate := aiProcess(t, "cohere.embed", cohere(f, "backoffRetry.count", "1"), raws("a")...)[0]
	if fate.Kind != sdk.Kept || len(f.requests) != 2 {
		t.Errorf("%+v after %d requests", fate, len(f.requests))
	}
}

// Each record gets the score for its own text, in whatever order the scores come.
func TestCohereRerank(t *testing.T) {
	const nevada = "Carson City is the capital city of the American state of Nevada."
	f := aiServe(t, "/v2/rerank", "Bearer "+token, func(r map[string]any) (int, any) {
		return 200, map[string]any{"results": []any{map[string]any{"index": 1, "relevance_score": 0.9},
			map[string]any{"index": 0, "relevance_score": 0.25}}}
	})
	records := raws("Lima", nevada, "none")
	fates := aiProcess(t, "cohere.rerank", cohere(f, "query", "What is the capital of Nevada?"), records...)
	if got, want := after(records[1]), `{"document":{"text":"`+nevada+
		`"},"index":1,"relevance_score":0.9}`; got != want {
		t.Errorf("got %s", got)
	}
	if got, want := after(records[0]), `{"document":{"text":"Lima"},"index":0,"relevance_score":0.25}`; got != want {
		t.Errorf("got %s", got)
	}
	if fates[2].Kind != sdk.Refused || after(records[2]) != "none" {
		t.Errorf("fates are %+v", fates)
	}
	wantRequests(t, f, `{"documents":["Lima","`+nevada+
		`","none"],"model":"rerank-v3.5","query":"What is the capital of Nevada?"}`)
}

func TestAISettings(t *testing.T) {
	for _, test := range []struct {
		name, setting, value, want string
	}{
		{"ollama", "url", "localhost:11434", `"url"`},
		{"ollama", "field", ".Key", `"field"`},
		{"ollama", "prompt", "Please DROP TABLE users", `must not contain "drop table"`},
		{"ollama", "prompt", strings.Repeat("x", 5000), "longer than 4096"},
		{"openai.textgen", "developer_message", "", `"developer_message"`},
		{"openai.textgen", "temperature", "warm", `"temperature"`},
		{"openai.embeddings", "api_key", "", `"api_key"`},
		{"openai.embeddings", "field", ".Position", `"field"`},
		{"openai.embeddings", "max_retries", "-1", `"max_retries"`},
		{"cohere.command", "prompt", "", `"prompt"`},
		{"cohere.command", "response.body", ".Payload", `"response.body"`},
		{"cohere.embed", "model", "embed-v4.0", `"inputType"`},
		{"cohere.embed", "maxTextsPerRequest", "0", `"maxTextsPerRequest"`},
		{"cohere.rerank", "query", "", `"query"`},
		{"cohere.rerank", "apiKey", "", `"apiKey"`},
	} {
		settings := map[string]map[string]string{
			"ollama": {"url": "http://x"}, "openai.textgen": {"api_key": "k", "model": "m", "developer_message": "d"},
			"openai.embeddings": {"api_key": "k", "model": "m"}, "cohere.command": {"apiKey": "k", "prompt": "p"},
			"cohere.embed": {"apiKey": "k"}, "cohere.rerank": {"apiKey": "k", "query": "q"},
		}[test.name]
		if _, err := aiConfigure(t, test.name, settings); err != nil {
			t.Errorf("%s: error is %v", test.name, err)
		}
		settings[test.setting] = test.value
		if _, err := aiConfigure(t, test.name, settings); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error is %v", test, err)
		}
	}
}

// No error and no log line contains a token.
func TestAITokensStayHidden(t *testing.T) {
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	defer server.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, base := range []string{server.URL, closed.URL} {
		f := &fake{Server: &httptest.Server{URL: base}}
		for name, settings := range map[string]map[string]string{
			"openai.textgen":    openai(f, "developer_message", "d", "max_retries", "1"),
			"openai.embeddings": openai(f, "max_retries", "1"),
			"cohere.command":    cohere(f, "prompt", "p"), "cohere.embed": cohere(f),
			"cohere.rerank": cohere(f, "query", "q"),
		} {
			p, err := aiConfigure(t, name, settings)
			if err != nil {
				t.Fatal(err)
			}
			b := sdk.NewProcessBatch(nil, raws("x", "y"), nil)
			if err := p.Process(sdk.WithEnv(t.Context(), &sdk.Env{Logger: log}), b); err != nil {
				t.Fatal(err)
			}
			for _, fate := range b.Fates() {
				if fate.Kind != sdk.Refused || strings.Contains(fate.Err.Error(), token) {
					t.Errorf("%s: fate is %+v", name, fate)
				}
			}
		}
	}
	if strings.Contains(lines.String(), token) {
		t.Errorf("log is %s", lines.String())
	}
}
