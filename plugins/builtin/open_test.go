package builtin_test

import (
	"context"
	"maps"
	"os"
	"runtime"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
)

var bucket = map[string]string{"aws.region": "eu-central-1", "aws.bucket": "b", "aws.accessKeyId": "id",
	"aws.secretAccessKey": "secret"}

// minimal are the required settings of each connector.
var minimal = map[string]map[string]string{
	"datadog destination":  {"auth.apiKey": "k"},
	"influxdb destination": {"url": "http://127.0.0.1:1", "org": "o", "bucket": "b"},
	"loki destination":     {"url": "http://127.0.0.1:1", "labels.job": "j"},
	"prometheus source":    {"address": "127.0.0.1:0"}, "prometheus destination": {"url": "http://127.0.0.1:1"},
	"splunk destination": {"url": "http://127.0.0.1:1", "auth.hecToken": "t"},
	"elasticsearch destination": {
		"url": "http://127.0.0.1:1"},
	"exec source": {"command": `["true"]`}, "exec destination": {"command": `["true"]`},
	"file source": {"path": "in"}, "file destination": {"path": "out"},
	"generator source": {"format.type": "raw"}, "log destination": {},
	"spool source": {"path": "spool"}, "spool destination": {"path": "spool"},
	"http source": {"address": "127.0.0.1:0"}, "http destination": {"url": "http://127.0.0.1:1"},
	"journald source": {},
	"kafka source":    {"servers": "127.0.0.1:1", "topics": "t"}, "kafka destination": {"servers": "127.0.0.1:1"},
	"mqtt source": {"url": "mqtt://127.0.0.1:1", "topics": "t"}, "mqtt destination": {"url": "mqtt://127.0.0.1:1",
		"topic": "t"},
	"mysql source":      {"address": "127.0.0.1:1", "user": "u", "database": "d"},
	"mysql destination": {"address": "127.0.0.1:1", "user": "u", "database": "d"},
	"nats source":       {"url": "nats://127.0.0.1:1", "stream": "s"}, "nats destination": {"url": "nats://127.0.0.1:1",
		"subject": "s"},
	"otlp source":          {"addresses": "127.0.0.1:0"},
	"otlp destination":     {"url": "http://127.0.0.1:1"},
	"postgres source":      {"url": "postgres://u@127.0.0.1:1/d"},
	"postgres destination": {"url": "postgres://u@127.0.0.1:1/d"},
	"redis source":         {"url": "redis://127.0.0.1:1", "key": "k"},
	"redis destination": {"url": "redis://127.0.0.1:1",
		"key": "k"},
	"s3 source": bucket, "s3 destination": with(bucket, "format", "parquet"),
	"socket source": {"address": "tcp://127.0.0.1:0"}, "socket destination": {"address": "tcp://127.0.0.1:1"},
	"sqlite source": {"path": "a.db"}, "sqlite destination": {"path": "a.db"},
	"syslog source": {"address": "127.0.0.1:0"}, "syslog destination": {"address": "127.0.0.1:1"},
	"websocket source":      {"url": "ws://127.0.0.1:1"},
	"websocket destination": {"mode": "listen", "address": "127.0.0.1:0"},
}

func with(settings map[string]string, name, value string) map[string]string {
	all := maps.Clone(settings)
	all[name] = value
	return all
}

// TestNothingBeforeOpen lists and configures every connector. Before Open a connector has no files, connections or
// goroutines, so that unused connectors cost nothing.
func TestNothingBeforeOpen(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var kept []any // protects the connectors from garbage collection
	for _, c := range builtin.Connectors(exec.Options{Enabled: true}) {
		before := held(t)
		if c.NewSource != nil {
			s := c.NewSource()
			kept = append(kept, s)
			if err := s.Configure(context.Background(),
				s.Parameters().ApplyDefaults(minimal[c.Name+" source"])); err != nil {
				t.Errorf("%s source: %v", c.Name, err)
			}
		}
		if c.NewDestination != nil {
			d := c.NewDestination()
			kept = append(kept, d)
			if err := d.Configure(context.Background(),
				d.Parameters().ApplyDefaults(minimal[c.Name+" destination"])); err != nil {
				t.Errorf("%s destination: %v", c.Name, err)
			}
		}
		if after := held(t); after.files > before.files || after.goroutines > before.goroutines {
			t.Errorf("%s has something open before it is opened: %+v, %+v before", c.Name, after, before)
		}
	}
	runtime.KeepAlive(kept)
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("files were made: %v, %v", made, err)
	}
}

// use is the resource usage of this process.
type use struct{ files, goroutines int }

func held(t *testing.T) use {
	t.Helper()
	u := use{goroutines: runtime.NumGoroutine()}
	if all, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.files = len(all)
	} else if runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return u
}
