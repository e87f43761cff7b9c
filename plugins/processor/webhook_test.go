package processor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func configure(t testing.TB, settings map[string]string) (sdk.Processor, error) {
	p := httpcall.Plugins()[0].New()
	params := p.Parameters()
	if errs := params.Check(settings); len(errs) > 0 {
		return p, errs[0]
	}
	return p, p.Configure(t.Context(), params.ApplyDefaults(settings))
}

func process(t testing.TB, settings map[string]string, records ...record.Record) []sdk.Fate {
	t.Helper()
	p, err := configure(t, settings)
	if err != nil {
		t.Fatal(err)
	}
	return plugintest.Process(t, p, records...)
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "hello, %s%s", body, strings.TrimPrefix(r.URL.Path, "/"))
}

func raw(text string) record.Record {
	return record.Record{Position: record.Position("p"), After: record.Raw([]byte(text))}
}

func TestBodyAndStatus(t *testing.T) {
	server := serve(t, echo)
	records := []record.Record{raw("world"), raw("you")}
	fates := process(t, map[string]string{"request.url": server.URL, "request.method": "post",
		"request.body": `{{ printf "%s" .Payload.After }}`, "response.status": `.Metadata["http_status"]`}, records...)
	for i, want := range []string{"hello, world", "hello, you"} {
		if got, _ := records[i].After.Raw(); fates[i].Kind != sdk.Kept || string(got) != want ||
			records[i].Metadata.Get("http_status") != "200" {
			t.Errorf("got %+v, %v", fates[i], records[i].Map())
		}
	}
}

func TestURLFromTheRecord(t *testing.T) {
	server := serve(t, echo)
	records := []record.Record{{After: record.Structured(map[string]any{"name": "foo",
		"host": strings.TrimPrefix(server.URL, "http://")})}}
	process(t, map[string]string{"request.url": "http://{{.Payload.After.host}}/{{.Payload.After.name}}",
		"response.body": ".Payload.After.response"}, records...)
	m, _ := records[0].After.Structured()
	if got, _ := m["response"].([]byte); string(got) != "hello, foo" {
		t.Errorf("got %v", m)
	}
}

func TestHeaders(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Content-Type"), " ", r.Header.Get("X-Mine"), " ", r.Method)
	})
	for want, settings := range map[string]map[string]string{
		"application/json  GET": {},
		"text/plain x GET":      {"headers.content-type": "text/plain", "headers.X-Mine": "x"},
		"text/csv  PUT":         {"request.contentType": "text/csv", "request.method": "PUT"},
	} {
		settings["request.url"] = server.URL
		records := []record.Record{raw("")}
		process(t, settings, records...)
		if got, _ := records[0].After.Raw(); string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Attempts are counted per record.
func TestRetries(t *testing.T) {
	var calls atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1)%3 != 0 {
			http.Error(w, "oops", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "ok")
	})
	settings := map[string]string{"request.url": server.URL, "backoffRetry.count": "2", "backoffRetry.min": "1ms",
		"backoffRetry.max": "4ms"}
	records := []record.Record{raw(""), raw("")}
	for i, fate := range process(t, settings, records...) {
		if got, _ := records[i].After.Raw(); fate.Kind != sdk.Kept || string(got) != "ok" {
			t.Errorf("record %d: %+v", i, fate)
		}
	}
	if calls.Load() != 6 {
		t.Errorf("%d requests, want 6", calls.Load())
	}
	calls.Store(0)
	settings["backoffRetry.count"] = "1"
	fate := process(t, settings, raw(""))[0]
	if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(),
		`the server answered 503 Service Unavailable: "oops" (the last of 2 tries)`) || calls.Load() != 2 {
		t.Errorf("fate is %+v after %d requests", fate, calls.Load())
	}
}

// A response that rejects the request is no reason to send it again.
func TestStatuses(t *testing.T) {
	var calls atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Error(w, "nf", http.StatusNotFound)
	})
	settings := map[string]string{"request.url": server.URL, "backoffRetry.count": "5",
		"response.status": ".Metadata.status"}
	fate := process(t, settings, raw("x"))[0]
	if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), `404 Not Found: "nf"`) || calls.Load() != 1 {
		t.Errorf("fate is %+v after %d requests", fate, calls.Load())
	}
	for _, accept := range []string{"404", "409, 4xx"} {
		settings["response.acceptStatus"] = accept
		records := []record.Record{raw("x")}
		process(t, settings, records...)
		if got, _ := records[0].After.Raw(); string(got) != "nf\n" || records[0].Metadata.Get("status") != "404" {
			t.Errorf("accepted: %v", records[0].Map())
		}
	}
}

func TestBounds(t *testing.T) {
	release := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/large":
			fmt.Fprint(w, strings.Repeat("x", 101))
		case "/elsewhere":
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/fits", http.StatusFound)
		case "/fits":
			fmt.Fprint(w, strings.Repeat("x", 100))
		}
	})
	defer close(release)
	for path, want := range map[string]string{
		"/slow":      "did not respond within 50ms",
		"/large":     "it has more than 100 bytes",
		"/elsewhere": "redirects to another one",
		"/here":      "",
	} {
		settings := map[string]string{"request.url": server.URL + path, "request.timeout": "50ms",
			"response.maxBytes": "100"}
		if path != "/slow" {
			settings["request.timeout"] = "1m"
		}
		in := []record.Record{raw("x")}
		fate := process(t, settings, in...)[0]
		if want == "" && fate.Kind != sdk.Kept || want != "" &&
			(fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), want)) {
			t.Errorf("%s: fate is %+v, want %q", path, fate, want)
		}
		if got, _ := in[0].After.Raw(); want != "" && string(got) != "x" {
			t.Errorf("%s: the record that was refused is %q", path, got)
		}
	}
}

// A stopping pipeline does not wait for a server or a pause.
func TestStops(t *testing.T) {
	asked := make(chan struct{}, 10)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		http.Error(w, "", http.StatusInternalServerError)
	})
	p, err := configure(t, map[string]string{"request.url": server.URL, "backoffRetry.count": "9",
		"backoffRetry.min": "1h", "backoffRetry.max": "1h"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if err := p.Process(ctx, sdk.NewProcessBatch(nil, []record.Record{raw("")}, nil)); err != context.Canceled {
		t.Errorf("error is %v", err)
	}
}

// No error and no log line contains a token, wherever it was configured.
func TestTokensStayHidden(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "bad token "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"), http.StatusUnauthorized)
	})
	var lines bytes.Buffer
	ctx := sdk.WithEnv(t.Context(),
		&sdk.Env{Logger: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))})
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, url := range []string{server.URL, closed.URL,
		"http://user:s3cret@" + strings.TrimPrefix(closed.URL, "http://")} {
		p, err := configure(t, map[string]string{"request.url": url + "/?token=s3cret",
			"headers.Authorization": "Bearer s3cret", "headers.X-Api-Key": "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		b := sdk.NewProcessBatch(nil, []record.Record{raw("")}, nil)
		if err := p.Process(ctx, b); err != nil {
			t.Fatal(err)
		}
		if f := b.Fates()[0]; f.Kind != sdk.Refused || strings.Contains(f.Err.Error(), "s3cret") {
			t.Errorf("fate is %+v", f)
		}
	}
	if strings.Contains(lines.String(), "s3cret") {
		t.Errorf("log is %s", lines.String())
	}
}

func TestSettings(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		`"request.url"`:           {},
		"want a URL that begins":  {"request.url": "ftp://x"},
		"it is no URL":            {"request.url": "http://a b/"},
		"cannot parse the temp":   {"request.url": "http://x/{{ .a"},
		`"request.body"`:          {"request.url": "http://x", "request.body": "{{ nofunc }}"},
		"leave one out":           {"request.url": "http://x", "request.contentType": "a", "headers.content-type": "b"},
		"the field that response": {"request.url": "http://x", "response.status": ".Payload.After"},
		`"response.body"`:         {"request.url": "http://x", "response.body": ".Position"},
		`"response.status"`:       {"request.url": "http://x", "response.status": ".Payload"},
		"is no status":            {"request.url": "http://x", "response.acceptStatus": "4x"},
		`"backoffRetry.count"`:    {"request.url": "http://x", "backoffRetry.count": "-1"},
		`"backoffRetry.factor"`:   {"request.url": "http://x", "backoffRetry.factor": "0"},
	} {
		if _, err := configure(t, settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error is %v, want %s", settings, err, want)
		}
	}
}

// The pauses between attempts grow, and are bounded.
func TestPauses(t *testing.T) {
	var tries atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		w.Header().Set("Retry-After", "100")
		http.Error(w, "", http.StatusTooManyRequests)
	})
	server.Config.SetKeepAlivesEnabled(false) // nothing waits for the network during a pause
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		process(t, map[string]string{"request.url": server.URL, "backoffRetry.count": "2", "backoffRetry.min": "20s",
			"backoffRetry.max": "40s"}, raw(""))
		// The server asks for more than the maximum pause.
		if took := time.Since(began); took != 80*time.Second || tries.Load() != 3 {
			t.Errorf("%d tries took %v, want 3 with two pauses of 40 s", tries.Load(), took)
		}
	})
}
