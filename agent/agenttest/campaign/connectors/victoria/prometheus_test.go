package victoria_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/prometheus"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// numbered returns records with samples of three series, with the numbers from first on as values.
func numbered(first, n int) []record.Record {
	return made(first, n, func(i int) record.Data {
		return record.Structured(map[string]any{"name": "m", "value": float64(i), "type": "gauge", "help": "Numbers.",
			"labels": map[string]any{"team": fmt.Sprint("t", i%3), "quote": "a\"b\\"}})
	})
}

// series is a series that a server returns.
type series struct {
	Metric map[string]string
	Values [][]any // pairs of seconds and a value as text
}

// samples returns the samples that Prometheus has of a selector, as "labels seconds value".
func samples(t testing.TB, addr, selector string) (all []string) {
	t.Helper()
	var answer struct{ Data struct{ Result []series } }
	text := query(t, addr+"/api/v1/query", url.Values{"query": {selector + "[1d]"}})
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	for _, s := range answer.Data.Result {
		for _, v := range s.Values {
			all = append(all, fmt.Sprintf("%v %.3f %v", s.Metric, v[0], v[1]))
		}
	}
	slices.Sort(all)
	return all
}

// expected returns samples as Prometheus returns them.
func expected(records []record.Record) (all []string) {
	for i := range records {
		o, _ := records[i].After.Structured()
		labels := map[string]string{"__name__": o["name"].(string)}
		for name, value := range o["labels"].(map[string]any) {
			labels[name] = value.(string)
		}
		at, _ := strconv.ParseInt(records[i].Metadata.Get(record.KeyCreatedAt), 10, 64)
		value := fmt.Sprint(o["value"])
		if f, ok := o["value"].(float64); ok {
			value = strconv.FormatFloat(f, 'f', -1, 64)
		}
		all = append(all, fmt.Sprintf("%v %.3f %v", labels, float64(at/1e6)/1e3, value))
	}
	slices.Sort(all)
	return all
}

// same compares sorted texts.
func same(t testing.TB, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("there are %d, want %d, and number %d is %q, want %q", len(got), len(want), i, got[i:min(i+1, len(got))],
		want[i:min(i+1, len(want))])
}

// nothing is the configuration of a Prometheus that only receives.
func nothing(string) string { return "global: {}\n" }

// TestPrometheus writes samples to Prometheus, and half the samples again with another destination, as after a kill of
// the agent. It reads all back. Only samples that are out of order are refused.
func TestPrometheus(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPrometheus(t, nothing)
	settings := map[string]string{"url": "http://" + p.Addr + "/api/v1/write", "batch.maxRecords": "300"}
	write(t, prometheus.Connector(), settings, numbered(0, 1000))
	d, ctx := plugintest.OpenDestination(t, prometheus.Connector(), "p:d", settings)
	if n, err := d.Write(ctx, numbered(500, 1500)); n != 1500 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(ctx, numbered(2000, 1)); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	same(t, samples(t, p.Addr, "m"), expected(numbered(0, 2001)))

	// The sample in the middle is older than the newest one in the series.
	records := append(append(numbered(2001, 2), numbered(3, 1)...), numbered(2003, 2)...)
	var lost interface{ Lost() bool }
	n, err := d.Write(ctx, records)
	if n != 2 || errors.As(err, &lost) || err == nil || !strings.Contains(err.Error(), "out of order sample") {
		t.Errorf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(ctx, records[3:]); n != 2 || err != nil {
		t.Errorf("then wrote %d: %v", n, err)
	}
	same(t, samples(t, p.Addr, "m"), expected(numbered(0, 2005)))
}

// TestPrometheusValues writes values that JSON does not have, and two samples with the same time.
func TestPrometheusValues(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPrometheus(t, nothing)
	values := []any{"NaN", "+Inf", "-Inf", 123456789.125, "StaleNaN", -1.5}
	records := made(0, len(values), func(i int) record.Data {
		return record.Structured(map[string]any{"name": "v", "value": values[i], "labels": map[string]any{}})
	})
	d, ctx := plugintest.OpenDestination(t, prometheus.Connector(), "p:d",
		map[string]string{"url": "http://" + p.Addr + "/api/v1/write"})
	if n, err := d.Write(ctx, records); n != len(records) || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	same(t, samples(t, p.Addr, "v"), expected(append(records[:4:4], records[5]))) // a stale marker is not returned
	twice := append(made(10, 1, func(int) record.Data { return records[0].After }), made(10, 1, func(int) record.Data {
		return records[1].After
	})...)
	n, err := d.Write(ctx, twice)
	if n != 1 || err == nil || !strings.Contains(err.Error(), "duplicate sample") {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestPrometheusVersion sends remote write 2.0 to a Prometheus that does not know it, and to one that does not receive.
func TestPrometheusVersion(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPrometheus(t, nothing)
	for path, want := range map[string]string{"/api/v1/write": "set protocol to 1",
		"/api/v1/push": "check the path in url"} {
		d, ctx := plugintest.OpenDestination(t, prometheus.Connector(), "p:d", map[string]string{
			"url": "http://" + p.Addr + path, "protocol": "2", "retry.timeout": "0s"})
		var lost interface{ Lost() bool }
		n, err := d.Write(ctx, numbered(0, 10))
		if n != 0 || !errors.As(err, &lost) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: wrote %d: %v, want %q", path, n, err, want)
		}
	}
}

// TestRemoteWriteVictoriaMetrics writes samples to VictoriaMetrics, and reads them back.
func TestRemoteWriteVictoriaMetrics(t *testing.T) {
	load.Parallel(t, load.Server)
	v := server.StartVictoriaMetrics(t)
	settings := map[string]string{"url": "http://" + v.Addr + "/api/v1/write", "batch.maxRecords": "300"}
	records := numbered(0, 1000)
	slices.Reverse(records) // it accepts any order
	write(t, prometheus.Connector(), settings, records)
	var got []string
	wait.For(t, "all samples", func() bool {
		got = nil
		query(t, v.Addr+"/internal/force_flush", nil)
		text := query(t, v.Addr+"/api/v1/export", url.Values{"match[]": {"m"}, "start": {"0"}})
		for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
			var s struct {
				Metric     map[string]string
				Values     []float64
				Timestamps []int64
			}
			if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
				t.Fatal(err)
			}
			for i := range s.Values {
				got = append(got, fmt.Sprintf("%v %.3f %v", s.Metric, float64(s.Timestamps[i])/1e3, s.Values[i]))
			}
		}
		return len(got) >= len(records)
	})
	slices.Sort(got)
	same(t, got, expected(records))
}

// TestPrometheusReceive receives from a Prometheus that scrapes itself, and sends its samples to another one.
func TestPrometheusReceive(t *testing.T) {
	load.Parallel(t, load.Server)
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	s := plugintest.OpenSource(t, &prometheus.Source{}, map[string]string{"address": addr}, nil)
	from := server.StartPrometheus(t, func(own string) string {
		return fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs: [{job_name: own, "+
			"static_configs: [{targets: ['%s']}]}]\nremote_write: [{url: 'http://%s/api/v1/write', "+
			"metadata_config: {send_interval: 1s}}]\n", own, addr)
	})
	to := server.StartPrometheus(t, nothing)
	d, ctx := plugintest.OpenDestination(t, prometheus.Connector(), "p:d",
		map[string]string{"url": "http://" + to.Addr + "/api/v1/write"})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	kinds := map[string]int{}
	for kinds["up"] < 20 || kinds["metadata"] == 0 {
		forward(ctx, t, s, d, kinds)
	}
	all := map[string]bool{}
	for _, selector := range []string{"up", "prometheus_http_request_duration_seconds_bucket", "go_gc_duration_seconds"} {
		for _, one := range samples(t, from.Addr, selector) {
			all[one] = true
		}
		got := samples(t, to.Addr, selector)
		for _, one := range got {
			if !all[one] {
				t.Errorf("the first Prometheus does not have %s", one)
			}
		}
		if len(got) < 20 {
			t.Errorf("there are %d samples of %s", len(got), selector)
		}
	}
	t.Log(slices.Sorted(maps.Keys(kinds)), kinds["sample"], "samples")
}

// forward moves records from s to d, and counts them by kind, and those with the name up.
func forward(ctx context.Context, t *testing.T, s sdk.Source, d sdk.Destination, kinds map[string]int) {
	t.Helper()
	records, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.Write(ctx, records); n != len(records) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(records), err)
	}
	positions := make([]record.Position, len(records))
	for i := range records {
		positions[i] = records[i].Position
		kinds[records[i].Metadata.Get("prometheus.kind")]++
		if o, _ := records[i].After.Structured(); o["name"] == "up" && o["value"] != nil {
			kinds["up"]++
		}
	}
	if err := s.Ack(ctx, positions); err != nil {
		t.Fatal(err)
	}
}
