package prometheus_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/prometheus"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
)

// metrics is a page with all types of metrics.
const metrics = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",job="own"} 3 1000
requests_total{code="500"} +Inf
# TYPE temperature gauge
temperature NaN
# TYPE latency histogram
latency_bucket{le="1"} 2
latency_bucket{le="+Inf"} 3
latency_sum 4.5
latency_count 3
# TYPE size summary
size{quantile="0.5"} 7
size_sum 8
size_count 1
untyped 1e3
`

// target serves a page.
func target(t testing.TB, page func(w http.ResponseWriter, r *http.Request)) string {
	s := httptest.NewServer(http.HandlerFunc(page))
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

// scraping returns an open source that scrapes targets.
func scraping(t testing.TB, settings set) *prometheus.Source {
	t.Helper()
	settings["mode"] = "scrape"
	return plugintest.OpenSource(t, &prometheus.Source{}, settings, nil)
}

// texts returns name, labels and value of records, and the time if it is not now.
func texts(records []record.Record) (all []string) {
	for i := range records {
		o, _ := records[i].After.Structured()
		text := fmt.Sprint(o["name"], " ", o["labels"], " ", o["value"], " ", o["type"], " ", o["help"])
		if at := records[i].Metadata.Get(record.KeyCreatedAt); len(at) < len("1000000000000000000") {
			text += " @" + at
		}
		all = append(all, text)
	}
	return all
}

// TestScrape checks the samples of a target.
func TestScrape(t *testing.T) {
	var header http.Header
	url := target(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write([]byte(metrics))
	})
	s := scraping(t, set{"targets": url, "job": "node", "auth.token": "word", "headers.X-Team": "a"})
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")
	own := "instance:" + host + " job:node"
	want := []string{
		"latency_bucket map[" + own + " le:1] 2 histogram <nil>",
		"latency_bucket map[" + own + " le:+Inf] 3 histogram <nil>",
		"latency_sum map[" + own + "] 4.5 histogram <nil>",
		"latency_count map[" + own + "] 3 histogram <nil>",
		"requests_total map[code:200 exported_job:own " + own + "] 3 counter Requests. @1000000000",
		"requests_total map[code:500 " + own + "] +Inf counter Requests.",
		"size map[" + own + " quantile:0.5] 7 summary <nil>",
		"size_sum map[" + own + "] 8 summary <nil>",
		"size_count map[" + own + "] 1 summary <nil>",
		"temperature map[" + own + "] NaN gauge <nil>",
		"untyped map[" + own + "] 1000 <nil> <nil>",
		"up map[" + own + "] 1 gauge <nil>",
	}
	got := texts(plugintest.Read(t, s, len(want)))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("read\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if header.Get("Authorization") != "Bearer word" || header.Get("X-Team") != "a" ||
		header.Get("X-Prometheus-Scrape-Timeout-Seconds") != "10" || !strings.Contains(header.Get("Accept"), "text/plain") {
		t.Errorf("the headers are %v", header)
	}
	if p := s.Progress(); p.Warning != "" {
		t.Errorf("the warning is %q", p.Warning)
	}
}

// TestScrapeBad checks targets that cannot be scraped next to one that can: of each the sample up is 0.
func TestScrapeBad(t *testing.T) {
	page := func(status int, contentType, text string) string {
		return target(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		})
	}
	const plain = "text/plain"
	good := page(200, plain, "good 1\n")
	for name, c := range map[string]struct {
		url, want string
	}{
		"status":   {page(503, plain, "later"), "status 503"},
		"redirect": {page(302, plain, ""), "status 302"},
		"page":     {page(200, "text/html", "<html>"), "check targets"},
		"openmetrics": {page(200, "application/openmetrics-text; version=1.0.0", "a 1\n# EOF\n"),
			"instead of text/plain"},
		"protobuf":    {page(200, "application/vnd.google.protobuf", "\x00"), "instead of text/plain"},
		"text":        {page(200, plain, "good 1\nbad x\n"), "cannot parse the response"},
		"cut":         {page(200, plain, "good 1\nbad{a=\"b"), "cannot parse the response"},
		"label twice": {page(200, plain, `m{a="1",a="2"} 1`+"\n"), "cannot parse the response"},
		"bytes":       {page(200, plain, "m{a=\"\xff\"} 1\n"), "cannot parse the response"},
		"types":       {page(200, plain, "# TYPE m gauge\n# TYPE m counter\nm 1\n"), "cannot parse the response"},
		"time":        {page(200, plain, "m 1 9223372036854775807\n"), "is out of range"},
		"large":       {page(200, plain, strings.Repeat("m 1\n", 5000)), "raise limit.bodyBytes"},
		"nobody":      {"http://127.0.0.1:1/metrics", "cannot reach 127.0.0.1:1"},
	} {
		s := scraping(t, set{"targets": c.url + "," + good, "limit.bodyBytes": "10000"})
		records := texts(plugintest.Read(t, s, 3))
		if len(records) != 3 || !strings.HasPrefix(records[0], "up ") || !strings.HasSuffix(records[0], "] 0 gauge <nil>") ||
			!strings.HasPrefix(records[1], "good ") || !strings.HasSuffix(records[2], "] 1 gauge <nil>") {
			t.Errorf("%s: read %q", name, records)
		}
		if p := s.Progress(); !strings.Contains(p.Warning, c.want) {
			t.Errorf("%s: the warning is %q, want %q", name, p.Warning, c.want)
		}
	}
}

// TestScrapeTimes checks the times of scrapes, also when the pipeline is slow, and that a warning ends.
func TestScrapeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &prometheus.Source{}
		begin := time.Now()
		failing := true
		var at []time.Duration
		p := network.ServePipes(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			at = append(at, time.Since(begin))
			if failing {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = w.Write([]byte("m 1\n"))
		}))
		settings := set{"mode": "scrape", "targets": "http://a/metrics", "interval": "10s"}
		if err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(settings)); err != nil {
			t.Fatal(err)
		}
		if err := s.Open(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		prometheus.ScrapeWith(s, p.Dial)
		read := func(want int) {
			t.Helper()
			if records, err := s.Read(t.Context()); len(records) != want || err != nil {
				t.Fatalf("read %v: %v", texts(records), err)
			}
		}
		read(1)
		if p := s.Progress(); !strings.Contains(p.Warning, "cannot scrape a:80") {
			t.Errorf("the warning is %q", p.Warning)
		}
		failing = false
		read(2)
		if p := s.Progress(); p.Warning != "" {
			t.Errorf("the warning is still %q", p.Warning)
		}
		time.Sleep(25 * time.Second) // the pipeline is slow
		read(2)
		read(2)
		want := []time.Duration{0, 10 * time.Second, 35 * time.Second, 40 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("scraped at %v, want %v", at, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Read(ctx); err == nil {
			t.Error("Read does not end")
		}
		if err := s.Teardown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestScrapeMany reads more samples and targets than one Read returns.
func TestScrapeMany(t *testing.T) {
	var page strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&page, "m{i=\"%d\"} %d\n", i, i)
	}
	url := target(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page.String())) })
	var targets []string
	for i := range 10 {
		targets = append(targets, fmt.Sprint(url, i))
	}
	s := scraping(t, set{"targets": strings.Join(targets, ","), "interval": "1h"})
	seen := map[string]bool{}
	for range 20 {
		records, err := s.Read(t.Context())
		if err != nil || len(records) > 1000 {
			t.Fatal(len(records), err)
		}
		for i := range records {
			seen[string(records[i].Position)] = true
		}
		if len(seen) == 10*1501 {
			return
		}
	}
	t.Errorf("read %d records", len(seen))
}
