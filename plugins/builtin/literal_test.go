package builtin_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// anyText are settings whose text is not the name of something that a pipeline creates or searches for: a mistake
// appears when the setting is used, or "{{" is valid text. A name that ends in a dot stands for all settings with this
// prefix.
var anyText = []string{
	"auth.", "aws.", "caCert", "clientCert", "clientKey", "sasl", "tls.", // secrets and certificates
	"address", "addresses", "servers", "postgres url", "mqtt url", "nats url", "redis url",
	// a wrong one cannot be reached
	"command", "shell", "setup", "request.body", "multiline.start", "matches", // languages of their own
	"encryption.kmsKey", "timezone", "protocols", "methods", "operations",
	"slot.max-lag", "user", "password", "mysql database", "parquet.recordColumns", // validated
	"columns.expression.", // checked when they are compiled
	"csv.", "cursor.", "pagination.", "records.path", "metadata.headers", "snapshot.again", "format.options.",
	"collections.",
}

// templates are settings that may be templates.
var templates = []string{
	"datadog service", "datadog ddsource", "datadog hostname", "datadog ddtags",
	"elasticsearch index", "elasticsearch id",
	"influxdb measurement", "influxdb tags.*",
	"loki labels.*", "loki line", "loki metadata.*",
	"prometheus name", "prometheus value", "prometheus labels.*", "prometheus time", "prometheus type", "prometheus help",
	"prometheus unit",
	"splunk index", "splunk host", "splunk source", "splunk sourcetype", "splunk fields.*",
	"file path", "s3 prefix", "s3 key", "kafka topic", "kafka partition", "mqtt topic", "nats subject", "redis key",
	"redis value", "redis fields.*", "redis expire",
	"otlp log.attributes", "otlp log.body", "otlp log.severity", "otlp log.time", "otlp resource.attributes",
	"postgres table", "mysql table", "sqlite table",
	"socket frame",
	"syslog appname", "syslog facility", "syslog hostname", "syslog msgid", "syslog procid", "syslog severity",
	"websocket message",
}

// TestTemplatesAreNotTakenLiterally checks all text settings. A setting that names something is a template, or refuses
// "{{": otherwise the connector would create or search for something with that name.
func TestTemplatesAreNotTakenLiterally(t *testing.T) {
	seen := 0
	for _, c := range builtin.Connectors(exec.Options{Enabled: true}) {
		sides := map[bool]sdk.Parameters{}
		if c.NewSource != nil {
			sides[false] = c.NewSource().Parameters()
		}
		if c.NewDestination != nil {
			sides[true] = c.NewDestination().Parameters()
		}
		for isDestination, params := range sides {
			for _, name := range slices.Sorted(maps.Keys(params)) {
				p := params[name]
				limited := func(v sdk.Validation) bool {
					return v.Type == sdk.ValidationInclusion || v.Type == sdk.ValidationRegex
				}
				if p.Type != sdk.TypeString || slices.ContainsFunc(p.Validations, limited) {
					continue
				}
				seen++
				full := c.Name + " " + name
				known := func(all []string) bool {
					return slices.ContainsFunc(all, func(s string) bool {
						return s == full || s == name || strings.HasSuffix(s, ".") && strings.HasPrefix(name, s) ||
							s == "sasl" && strings.HasPrefix(name, s)
					})
				}
				isTemplate := isDestination && slices.Contains(templates, full)
				setting := strings.ReplaceAll(name, "*", "x")
				refuses := func(text string) bool {
					return slices.ContainsFunc(params.Check(map[string]string{setting: text}),
						func(e sdk.SettingError) bool {
							return e.Setting == setting && strings.Contains(e.Message, "template")
						})
				}
				isFree := known(anyText) && !strings.HasSuffix(name, "options.path")
				if got, want := refuses("a{{ .Operation }}"), !isTemplate && !isFree; got != want {
					t.Errorf("%s (destination: %t) refuses a template: %t, want %t", full, isDestination, got, want)
				}
				if isTemplate && !refuses("{{ .Operation") {
					t.Errorf("%s (destination: %t) takes a template that is none", full, isDestination)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d settings were looked at", seen)
	}
}
