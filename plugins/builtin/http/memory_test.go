package http_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	nethttp "net/http"
	"net/http/httptest"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/http"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// allocated returns the total number of bytes that the process has allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func zipped(t *testing.T, body string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, body); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return &b
}

// The records of a body are created as they are read, and the request is answered when its last record is acknowledged.
func TestServerManyRecords(t *testing.T) {
	const count = 30_000
	for contentType, body := range map[string]string{
		"application/x-ndjson": strings.Repeat("1\n", count),
		"application/json":     "[" + strings.Repeat("{},", count-1) + "1]",
		"application/a+json":   "[" + strings.Repeat("1,", count-1) + "[1]]",
	} {
		t.Run(contentType, func(t *testing.T) {
			s, addr := listening(t, map[string]string{})
			r, err := nethttp.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/", zipped(t, body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", contentType)
			r.Header.Set("Content-Encoding", "gzip")
			before, answers := allocated(), make(chan answer, 1)
			go func() { answers <- send(nethttp.DefaultClient, r) }()
			records, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := allocated() - before; n > 16<<20 || len(records) > 2000 {
				t.Errorf("%d bytes were allocated for the first %d records", n, len(records))
			}
			total := len(records)
			for total < count {
				stays(t, addr, answers)
				ack(t, s, records)
				if records, err = s.Read(t.Context()); err != nil {
					t.Fatal(err)
				}
				total += len(records)
			}
			stays(t, addr, answers)
			ack(t, s, records)
			if a := <-answers; a.status != 204 || total != count {
				t.Errorf("answered %d %v after %d records", a.status, a.err, total)
			}
		})
	}
}

// A body with any invalid element is refused as a whole, before its first record is read.
func TestServerTakesAllOrNothing(t *testing.T) {
	s := &http.Source{}
	addr := "127.0.0.1:" + strconv.Itoa(network.FreePort(t))
	if err := s.Configure(t.Context(), map[string]string{"address": addr}); err != nil {
		t.Fatal(err)
	}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), Budget: 1 << 20})
	if err := s.Open(ctx, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(t.Context()) })
	for body, want := range map[string]int{
		`[{"a":1},{"a":}]`: 400, `[{"a":1},1e]`: 400, `[{"a":1}`: 400, `[{"a":1}] 2`: 400,
		`[{"a":1},` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `]`: 400,
		`[{"a":1},[` + strings.Repeat("{},", 100_000) + `1]]`:                     413,
		`{"a":[` + strings.Repeat("[],", 100_000) +
			`1]}`: 413,
	} {
		a := <-post(t, addr, body, "Content-Type", "application/json")
		if a.status != want {
			t.Errorf("%.40s is answered %d %.100s, want %d", body, a.status, a.text, want)
		}
		if want == 413 && !strings.Contains(a.text, "too much memory") {
			t.Errorf("%.40s is answered %q", body, a.text)
		}
	}
	answers := post(t, addr, "[1,2]", "Content-Type", "application/json")
	records := plugintest.Read(t, s, 2)
	if got := payloads(t, records); got != "1 2" {
		t.Errorf("read %q, want nothing of what was refused", got)
	}
	ack(t, s, records)
	if a := <-answers; a.status != 204 {
		t.Errorf("answered %d", a.status)
	}
}

// After a sender has disconnected, its unread records are dropped, and its request is not answered twice.
func TestServerGoneHalfRead(t *testing.T) {
	s, addr := listening(t, map[string]string{"ack.timeout": "100ms"})
	answers := post(t, addr, strings.Repeat("1\n", 5000), "Content-Type", "application/x-ndjson")
	records, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.status != 503 {
		t.Errorf("answered %d, want 503", a.status)
	}
	ack(t, s, records)
	if n := s.Progress().Records; n == nil || *n != 0 {
		t.Errorf("progress is %+v", s.Progress())
	}
	next := post(t, addr, "next")
	records = plugintest.Read(t, s, 1)
	if got := payloads(t, records); got != "next" {
		t.Errorf("read %q, want only what is waited for", got)
	}
	ack(t, s, records)
	if a := <-next; a.status != 204 {
		t.Errorf("answered %d", a.status)
	}
}

// A polled response with too many records for the memory budget is skipped, and the error suggests smaller pages.
func TestPollManyRecords(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"lines": {"body.format": "lines"}, "json": {"body.format": "json"}, "path": {"records.path": "list"},
	} {
		polled := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			switch name {
			case "lines":
				_, _ = io.WriteString(w, strings.Repeat("1\n", 1<<20))
			case "json":
				_, _ = io.WriteString(w, "["+strings.Repeat("1,", 1<<20)+"1]")
			default:
				_, _ = fmt.Fprintf(w, `{"list":[%s1]}`, strings.Repeat("1,", 30_000))
			}
		}))
		settings["url"] = polled.URL
		s := &http.Source{}
		if err := s.Configure(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
		if err := s.Open(sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), Budget: 4 << 20}),
			record.Position(nil)); err != nil {
			t.Fatal(err)
		}
		before := allocated()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _, _ = s.Read(ctx) }()
		wait.For(t, "the response is left out", func() bool {
			skipped := s.Progress().Skipped
			return len(skipped) == 1 && strings.Contains(skipped[0].Error, "request smaller pages")
		})
		if n := allocated() - before; n > 64<<20 {
			t.Errorf("%s: after %d bytes", name, n)
		}
		cancel()
		<-ended
		_ = s.Teardown(t.Context())
		polled.Close()
	}
}
