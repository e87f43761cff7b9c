package elasticsearch_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/elasticsearch"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// logs is a bare client of VictoriaLogs.
type logs struct {
	*server.VictoriaLogs
	t testing.TB
}

// query returns the log entries that a query selects.
func (l *logs) query(query string) (all []map[string]string) {
	l.t.Helper()
	resp, err := http.PostForm("http://"+l.Addr+"/select/logsql/query", url.Values{"query": {query}})
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		l.t.Fatalf("%s is answered %d", query, resp.StatusCode)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var entry map[string]string
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			l.t.Fatal(err)
		}
		all = append(all, entry)
	}
	return all
}

// settings returns the settings for data streams, and more, given as names and values in turn.
func (l *logs) settings(more ...string) map[string]string {
	all := map[string]string{"url": "http://" + l.Addr + "/insert/elasticsearch/?_stream_fields=host", "index": "logs",
		"dataStream": "true", "headers.VL-Msg-Field": "message", "headers.VL-Time-Field": "@timestamp"}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// records returns records with the numbers from first on: lines, and objects with hosts and messages, in turn.
func records(first, n int) (all []record.Record) {
	for i := range n {
		r := record.Record{Position: strconv.AppendInt(nil, int64(first+i), 10), Operation: record.OperationCreate,
			Metadata: record.NewMetadata(map[string]string{record.KeyCreatedAt: strconv.FormatInt(
				time.Date(2026, 11, 1, 0, 0, 0, first+i, time.UTC).UnixNano(), 10)}),
			After: record.Raw(fmt.Appendf(nil, "line %d", first+i))}
		if i%2 > 0 {
			r.After = record.Structured(map[string]any{"message": fmt.Sprint("line ", first+i), "host": "h",
				"nested": map[string]any{"n": first + i}})
		}
		all = append(all, r)
	}
	return all
}

// TestVictoriaLogs writes logs to VictoriaLogs, also while it is restarted, and reads them back.
func TestVictoriaLogs(t *testing.T) {
	load.Parallel(t, load.Server)
	l := &logs{server.StartVictoriaLogs(t), t}
	for i, compression := range []string{"none", "gzip"} {
		d, ctx := plugintest.OpenDestination(t, elasticsearch.Connector(), "p:d",
			l.settings("compression", compression, "batch.maxRecords", "300"))
		all := records(i*1000, 1000)
		if n, err := d.Write(ctx, all); n != len(all) || err != nil {
			t.Fatalf("%s: wrote %d: %v", compression, n, err)
		}
	}
	var got []map[string]string
	wait.For(t, "all logs", func() bool {
		got = l.query("* | sort by (_time)")
		return len(got) >= 2000
	})
	for n, entry := range got {
		if entry["_msg"] != fmt.Sprint("line ", n) || n%2 > 0 && (entry["host"] != "h" ||
			entry["nested.n"] != strconv.Itoa(n) || entry["_stream"] != `{host="h"}`) {
			t.Fatalf("entry %d is %v", n, entry)
		}
	}
	if len(got) != 2000 {
		t.Errorf("there are %d logs, want 2000", len(got))
	}

	d, ctx := plugintest.OpenDestination(t, elasticsearch.Connector(), "p:d", l.settings("retry.timeout", "1m"))
	l.Stop()
	written := make(chan error, 1)
	go func() {
		n, err := d.Write(ctx, records(2000, 1000))
		if n != 1000 && err == nil {
			err = fmt.Errorf("wrote %d", n)
		}
		written <- err
	}()
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	wait.For(t, "all logs", func() bool { return len(l.query("*")) >= 3000 })
	var messages []string
	for _, entry := range l.query("*") {
		messages = append(messages, entry["_msg"])
	}
	if slices.Sort(messages); len(slices.Compact(messages)) != 3000 {
		t.Errorf("there are %d different logs, want 3000", len(slices.Compact(messages)))
	}
}

// TestWrongPlaces checks the errors for a wrong path and for a port of something else.
func TestWrongPlaces(t *testing.T) {
	load.Parallel(t, load.Server)
	l := &logs{server.StartVictoriaLogs(t), t}
	for path, want := range map[string]string{"/insert": "url may be wrong", "/insert/jsonline": "url may be wrong",
		"/other": "url may be wrong"} {
		d, ctx := plugintest.OpenDestination(t, elasticsearch.Connector(), "p:d",
			l.settings("url", "http://"+l.Addr+path, "retry.timeout", "0s"))
		n, err := d.Write(ctx, records(0, 2))
		var lost interface{ Lost() bool }
		if n != 0 || !errors.As(err, &lost) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: wrote %d: %v", path, n, err)
		}
	}
}

// TestRefusedRecord writes a delete between logs. VictoriaLogs refuses the whole request with 400: only the delete is
// refused, also when it is the first record that it receives.
func TestRefusedRecord(t *testing.T) {
	load.Parallel(t, load.Server)
	l := &logs{server.StartVictoriaLogs(t), t}
	for n, before := range []int{0, 5} {
		d, ctx := plugintest.OpenDestination(t, elasticsearch.Connector(), "p:d",
			l.settings("dataStream", "false", "id", "x", "timestamp.field", "@timestamp"))
		all := records(10*n, 10)
		all[before].Operation = record.OperationDelete
		written, err := d.Write(ctx, all)
		if written != before || err == nil || !strings.Contains(err.Error(), "unexpected command") {
			t.Errorf("wrote %d: %v", written, err)
		}
		if written, err := d.Write(ctx, all[before+1:]); written != 9-before || err != nil {
			t.Errorf("wrote %d: %v", written, err)
		}
	}
	wait.For(t, "the logs", func() bool { return len(l.query("*")) >= 18 })
}
