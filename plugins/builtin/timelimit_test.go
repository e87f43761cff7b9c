package builtin_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// endlessTemplate has more iterations than any time limit allows.
const endlessTemplate = `{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}`

// withTemplate returns settings with which a destination executes the template t of a setting.
func withTemplate(connector, setting, t string) map[string]string {
	settings := maps.Clone(minimal[connector+" destination"])
	if strings.HasSuffix(setting, ".attributes") {
		t = "a=" + t
	}
	settings[strings.ReplaceAll(setting, "*", "x")] = t
	return settings
}

// TestTemplatesOfHTTPDestinationsHaveATimeLimit writes a record with an endless template in each setting of the
// destinations that send HTTP requests. Write ends it together with the context of the batch, which shows that the time
// limit of the batch has begun: the dialect begins it.
func TestTemplatesOfHTTPDestinationsHaveATimeLimit(t *testing.T) {
	var tested []string
	for _, c := range builtin.All() {
		if c.NewDestination == nil {
			continue
		}
		params := c.NewDestination().Parameters()
		if _, sendsHeaders := params["headers.*"]; !sendsHeaders || c.Name == "websocket" {
			continue // a message of websocket is no request
		}
		for _, setting := range slices.Sorted(maps.Keys(params)) {
			if !params[setting].Template {
				continue
			}
			tested = append(tested, c.Name)
			d := builtintest.Open[sdk.Destination](t, c.NewDestination(), withTemplate(c.Name, setting, endlessTemplate))
			stopped := errors.New("stopped")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(stopped)
			n, err := d.Write(ctx, []record.Record{{Operation: record.OperationCreate,
				Metadata: record.NewMetadata(map[string]string{record.KeyCollection: "c"}),
				After:    record.Structured(map[string]any{"name": "m", "value": 1})}})
			if n != 0 || !errors.Is(err, stopped) || !strings.Contains(err.Error(), "template of "+
				strings.TrimSuffix(setting, "*")) {
				t.Errorf("%s: with an endless template in %s it wrote %d: %v", c.Name, setting, n, err)
			}
		}
	}
	want := []string{"datadog", "elasticsearch", "influxdb", "loki", "otlp", "prometheus", "splunk"}
	if got := slices.Compact(tested); !slices.Equal(got, want) {
		t.Errorf("tested are %q, want %q", got, want)
	}
}
