package catalog_test

import (
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// TestWindowsThatSourcesDoNotAllow warns of windows and batches that hold more than a source delivers, or for longer
// than its senders wait, wherever they are.
func TestWindowsThatSourcesDoNotAllow(t *testing.T) {
	const early, giveUp = "processor.window_ends_early ", "connector.senders_give_up "
	mqtt := map[string]string{"url": "${URL}", "topics": "t"}
	with := func(base map[string]string, name, value string) map[string]string {
		all := map[string]string{name: value}
		for k, v := range base {
			all[k] = v
		}
		return all
	}
	aggregate := func(settings ...string) []spec.Processor {
		all := map[string]string{"window.size": "1m"}
		for i := 0; i < len(settings); i += 2 {
			all[settings[i]] = settings[i+1]
		}
		return []spec.Processor{{ID: "drop", Plugin: "filter", Condition: "false"},
			{ID: "sum", Plugin: "builtin:aggregate", Settings: all}}
	}
	for name, c := range map[string]struct {
		plugin   string
		source   map[string]string
		own      []spec.Processor // of the source
		common   []spec.Processor
		behind   []spec.Processor // of the destination
		settings map[string]string
		want     []string
	}{
		"mqtt": {"mqtt", mqtt, nil, aggregate(), nil, nil,
			[]string{early + "/processors/1/settings/window.size"}},
		"of the source": {"mqtt", mqtt, aggregate(), nil, nil, nil,
			[]string{early + "/connectors/0/processors/1/settings/window.size"}},
		"of the destination": {"mqtt", mqtt, nil, nil, aggregate(), nil,
			[]string{early + "/connectors/1/processors/1/settings/window.size"}},
		"a window that fits": {"mqtt", mqtt, nil, aggregate("window.records", "1000"), nil, nil, nil},
		"a greater limit":    {"mqtt", with(mqtt, "receiveMaximum", "4000"), nil, aggregate(), nil, nil, nil},
		"a limit that is not known": {"mqtt", with(mqtt, "receiveMaximum", "${MAX}"), nil, aggregate(), nil, nil,
			[]string{early + "/processors/1/settings/window.size"}},
		"what is not acknowledged": {"mqtt", with(mqtt, "qos", "0"), nil, aggregate(), nil, nil, nil},
		"nats": {"nats", map[string]string{"url": "nats://x", "stream": "s",
			"maxAckPending": "100"}, nil, aggregate(), nil, nil,
			[]string{early + "/processors/1/settings/window.size"}},
		"syslog": {"syslog", map[string]string{"limit.messages": "100"}, nil, aggregate(), nil, nil,
			[]string{early + "/processors/1/settings/window.size"}},
		"http": {"http", nil, nil, aggregate(), nil, nil,
			[]string{giveUp + "/processors/1/settings/window.size"}},
		"http that waits": {"http", map[string]string{"ack.timeout": "2m"}, nil, aggregate(), nil, nil, nil},
		"http that polls": {"http", map[string]string{"url": "http://x"}, nil, aggregate(), nil, nil, nil},
		"http and long batches": {"http", nil, nil, nil, nil, map[string]string{"sdk.batch.delay": "1h"},
			[]string{giveUp + "/connectors/1/settings/sdk.batch.delay"}},
		"http and short batches": {"http", nil, nil, nil, nil, map[string]string{"sdk.batch.delay": "1s",
			"sdk.batch.size": "100"}, nil},
		"http and batches for ever": {"http", nil, nil, nil, nil, map[string]string{"sdk.batch.size": "100"},
			[]string{giveUp + "/connectors/1/settings/sdk.batch.size"}},
		"a file has no limit": {"file", map[string]string{"path": "in"}, nil, aggregate(), nil,
			map[string]string{"sdk.batch.size": "100"}, nil},
		"an executable does not say": {"standalone:mqtt", mqtt, nil, aggregate(), nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			settings := with(c.settings, "path", "out")
			p := &spec.Pipeline{
				ID:              "p",
				Processors:      c.common,
				DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"},
				Connectors: []spec.Connector{
					{ID: "in", Type: spec.TypeSource, Plugin: c.plugin, Settings: c.source, Processors: c.own},
					{ID: "out", Type: spec.TypeDestination, Plugin: "builtin:file", Settings: settings,
						Processors: c.behind},
				},
			}
			var got []string
			for _, found := range offline(t).Check(t.Context(), p) {
				if found.Code+" " == early || found.Code+" " == giveUp {
					got = append(got, found.Code+" "+found.Path)
					if found.Severity != spec.SeverityWarning {
						t.Errorf("it is no warning: %+v", found)
					}
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
