package victoria_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/datadog"
	"github.com/conduit-agent/conduit/plugins/builtin/influxdb"
	"github.com/conduit-agent/conduit/plugins/builtin/loki"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// query posts a query and returns the response.
func query(t testing.TB, target string, values url.Values) string {
	t.Helper()
	resp, err := http.PostForm("http://"+target, values)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s with %v is answered %d %.300q, %v", target, values, resp.StatusCode, body, err)
	}
	return string(body)
}

// logs returns the log entries in VictoriaLogs that a query selects.
func logs(t testing.TB, addr, what string) (all []map[string]string) {
	t.Helper()
	text := query(t, addr+"/select/logsql/query", url.Values{"query": {what}})
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var entry map[string]string
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatal(err)
		}
		all = append(all, entry)
	}
	return all
}

// begin is the time of the first record. Servers accept points of the recent past.
var begin = time.Now().Add(-time.Hour).Truncate(time.Second)

// made returns records with the numbers from first on and times a millisecond apart.
func made(first, n int, after func(i int) record.Data) (all []record.Record) {
	for i := first; i < first+n; i++ {
		at := begin.Add(time.Duration(i) * time.Millisecond)
		all = append(all, record.Record{Position: strconv.AppendInt(nil, int64(i), 10), After: after(i),
			Operation: record.OperationCreate, Metadata: record.NewMetadata(map[string]string{
				"team": fmt.Sprint("t", i%3), record.KeyCreatedAt: strconv.FormatInt(at.UnixNano(), 10)})})
	}
	return all
}

func line(i int) record.Data { return record.Raw(fmt.Appendf(nil, "line %d \"x\"", i)) }

// write writes the records with a new destination.
func write(t *testing.T, c sdk.Connector, settings map[string]string, records []record.Record) {
	t.Helper()
	d, ctx := plugintest.OpenDestination(t, c, "p:d", settings)
	if n, err := d.Write(ctx, records); n != len(records) || err != nil {
		t.Fatalf("%v: wrote %d: %v", settings, n, err)
	}
}

// with returns settings with others.
func with(settings map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for name, value := range settings {
		all[name] = value
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// TestLoki writes lines with the API of Loki to VictoriaLogs, and reads them back.
func TestLoki(t *testing.T) {
	load.Parallel(t, load.Server)
	v := server.StartVictoriaLogs(t)
	settings := map[string]string{"url": "http://" + v.Addr + "/insert", "labels.job": "app",
		"labels.team": "{{ .Metadata.team }}", "metadata.trace": "x{{ .Metadata.team }}", "batch.maxRecords": "300"}
	for i, compression := range []string{"none", "gzip"} {
		write(t, loki.Connector(), with(settings, "compression", compression), made(i*1000, 1000, line))
	}
	var got []map[string]string
	wait.For(t, "all lines", func() bool {
		got = logs(t, v.Addr, "* | sort by (_time)")
		return len(got) >= 2000
	})
	for i, entry := range got {
		team := fmt.Sprint("t", i%3)
		if entry["_msg"] != fmt.Sprintf("line %d \"x\"", i) || entry["trace"] != "x"+team ||
			entry["_stream"] != `{job="app",team="`+team+`"}` {
			t.Fatalf("entry %d is %v", i, entry)
		}
	}
	if len(got) != 2000 {
		t.Errorf("there are %d lines", len(got))
	}
}

// TestDatadog writes logs with the API of Datadog to VictoriaLogs, and reads them back.
func TestDatadog(t *testing.T) {
	load.Parallel(t, load.Server)
	v := server.StartVictoriaLogs(t)
	settings := map[string]string{"url": "http://" + v.Addr + "/insert/datadog", "auth.apiKey": "key", "service": "web",
		"hostname": "{{ .Metadata.team }}", "ddtags": "env:prod,zone:b", "batch.maxRecords": "300"}
	for i, compression := range []string{"none", "gzip"} {
		write(t, datadog.Connector(), with(settings, "compression", compression), made(i*1000, 1000, line))
	}
	var got []map[string]string
	wait.For(t, "all logs", func() bool {
		got = logs(t, v.Addr, "*")
		return len(got) >= 2000
	})
	seen := map[string]bool{}
	for _, entry := range got {
		seen[entry["_msg"]] = true
		if entry["service"] != "web" || !strings.HasPrefix(entry["hostname"], "t") || entry["env"] != "prod" {
			t.Fatalf("an entry is %v", entry)
		}
	}
	if len(got) != 2000 || len(seen) != 2000 {
		t.Errorf("there are %d logs, %d different ones", len(got), len(seen))
	}
}

// sample is a payload with a field of each type.
func sample(i int) record.Data {
	return record.Structured(map[string]any{"n": i, "half": float64(i) / 2, "even": i%2 == 0,
		"text": fmt.Sprintf("a \"%d\", b=c\\", i), "inner": map[string]any{"x y": i}})
}

// TestInfluxDB writes points to InfluxDB 1, once more, and reads them back.
func TestInfluxDB(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartInfluxDB(t)
	settings := map[string]string{"url": "http://" + s.Addr, "api": "v1", "database": "d", "measurement": "m n",
		"tags.team": "a {{ .Metadata.team }},b=", "fields.integers": "integer", "batch.maxRecords": "300"}

	d, ctx := plugintest.OpenDestination(t, influxdb.Connector(), "p:d", with(settings, "retry.timeout", "0s"))
	var lost interface{ Lost() bool }
	n, err := d.Write(ctx, made(0, 2, sample))
	if n != 0 || !errors.As(err, &lost) || !strings.Contains(err.Error(), "check that the database exists") {
		t.Errorf("without a database it wrote %d: %v", n, err)
	}
	query(t, s.Addr+"/query", url.Values{"q": {"CREATE DATABASE d"}})
	for range 2 {
		for i, compression := range []string{"none", "gzip"} {
			write(t, influxdb.Connector(), with(settings, "compression", compression), made(i*1000, 1000, sample))
		}
	}
	var result struct {
		Results []struct {
			Series []struct{ Values [][]any }
		}
	}
	text := query(t, s.Addr+"/query", url.Values{"db": {"d"}, "epoch": {"ns"},
		"q": {`SELECT n, half, even, text, "inner.x y", team FROM "m n" ORDER BY time`}})
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&result); err != nil || len(result.Results) != 1 || len(result.Results[0].Series) != 1 {
		t.Fatalf("%.300s: %v", text, err)
	}
	values := result.Results[0].Series[0].Values
	for i, got := range values {
		want := fmt.Sprint([]any{begin.Add(time.Duration(i) * time.Millisecond).UnixNano(), i, float64(i) / 2, i%2 == 0,
			fmt.Sprintf("a \"%d\", b=c\\", i), i, fmt.Sprintf("a t%d,b=", i%3)})
		if fmt.Sprint(got) != want {
			t.Fatalf("point %d is %v, want %v", i, got, want)
		}
	}
	if len(values) != 2000 {
		t.Errorf("there are %d points, want 2000", len(values))
	}

	// Only the record with a field of another type is refused.
	records := made(3000, 5, sample)
	records[2].After = record.Structured(map[string]any{"n": "text"})
	d, ctx = plugintest.OpenDestination(t, influxdb.Connector(), "p:d", settings)
	n, err = d.Write(ctx, records)
	if n != 2 || errors.As(err, &lost) || err == nil || !strings.Contains(err.Error(), "field type conflict") {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestVictoriaMetrics writes points with the API of InfluxDB 2 to VictoriaMetrics, and reads them back.
func TestVictoriaMetrics(t *testing.T) {
	load.Parallel(t, load.Server)
	v := server.StartVictoriaMetrics(t)
	settings := map[string]string{"url": "http://" + v.Addr + "/influx", "org": "o", "bucket": "b", "measurement": "m",
		"tags.team": "{{ .Metadata.team }}", "fields": "n,half", "batch.maxRecords": "300"}
	write(t, influxdb.Connector(), settings, made(0, 1000, sample))
	var got []float64
	wait.For(t, "all points", func() bool {
		got = nil
		query(t, v.Addr+"/internal/force_flush", nil)
		text := query(t, v.Addr+"/api/v1/export", url.Values{"match[]": {"m_n"}, "start": {"0"}})
		for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
			var series struct{ Values []float64 }
			if err := json.Unmarshal(lines.Bytes(), &series); err != nil {
				t.Fatal(err)
			}
			got = append(got, series.Values...)
		}
		return len(got) >= 1000
	})
	slices.Sort(got)
	for i, n := range got {
		if n != float64(i) {
			t.Fatalf("point %d is %v", i, n)
		}
	}
}
