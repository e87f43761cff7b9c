package cli_test

import (
	"strings"
	"testing"

	"github.com/dop251/goja"
)

// TestDocsAreFound searches the documentation with the script of the site.
func TestDocsAreFound(t *testing.T) {
	site := docsSite(t)
	vm := goja.New()
	for _, script := range []string{"const window = {};", site["index.js"], site["search.js"]} {
		if _, err := vm.RunString(script); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{ // the first hit, as a link
		"kafka":                           "connector-kafka.html",
		"redis":                           "connector-redis.html",
		"opentelemetry":                   "connector-otlp.html",
		"traceparent":                     "telemetry.html",
		"tracing":                         "telemetry.html",
		"file":                            "connector-file.html",
		"json.decode":                     "processor-json.decode.html",
		"parse.syslog":                    "processor-parse.syslog.html",
		"protobuf.decode":                 "processor-protobuf.decode.html",
		"rollback":                        "reload.html",
		"db.sqlite.path":                  "settings.html#.db.sqlite.path",
		"max-silence":                     "pipeline-file.html#pipeline.max-silence",
		"dead letters":                    "dead-letters.html",
		"rate limit":                      "sdk.html#settings-that-every-connector-has",
		"hourly":                          "weblogs.html",
		"upsert":                          "built-in.html#modes.upsert",
		"backpressure":                    "concepts.html#windows-and-backpressure",
		"gitops":                          "gitops.html",
		"exactly-once":                    "connector-kafka.html#destination.exactlyOnce",
		"k8s":                             "kubernetes.html",
		"deduplicate":                     "processor-dedupe.html",
		"anonymize":                       "processor-field.mask.html",
		"opensearch":                      "connector-elasticsearch.html",
		"http event collector":            "connector-splunk.html",
		"line protocol":                   "connector-influxdb.html",
		"promtail":                        "connector-loki.html",
		"netcat":                          "connector-socket.html",
		"websocket":                       "connector-websocket.html",
		"wss":                             "connector-websocket.html",
		"remote write":                    "connector-prometheus.html",
		"mariadb cdc":                     "connector-mysql.html",
		"kubernetes logs":                 "container-logs.html",
		"container logs":                  "container-logs.html",
		"kafka commit offsets":            "connector-kafka.html#source.commitOffsetsSize",
		"rates last hour":                 "ui.html",
		"what to monitor":                 "operating.html",
		"health check":                    "metrics.html",
		"show logs":                       "ui.html#log",
		"rotate token":                    "access.html#tokens",
		"renew certificate":               "access.html#certificates",
		"discard dead letters":            "dead-letters.html",
		"how do I use kafka with my zzqx": "connector-kafka.html#connecting",
		"zzqx wwqy":                       "",
	} {
		vm.Set("query", query)
		got, err := vm.RunString("findPages(window.conduitPages, query).map(linkOf).join(' ')")
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(got.String(), " "); first != want {
			t.Errorf("%q finds %.200s, want %s first", query, got, want)
		}
	}
}
