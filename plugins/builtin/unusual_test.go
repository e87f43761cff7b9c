package builtin_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestUnusualValues writes values without a JSON form to the destinations without a server, in every format: no record
// is refused, and JSON output is valid.
func TestUnusualValues(t *testing.T) {
	values := map[string]any{
		"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "NaN of 32 bits": float32(math.NaN()),
		"Latin-1": "caf\xe9", "NUL": "a\x00b",
		"year 12345": time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC), "year -44": time.Date(-44, 3, 15, 0, 0, 0, 0,
			time.UTC),
		"great number": json.Number("1e400"), "no number": json.Number("NaN"),
		"nested": []any{map[string]any{"\xe9": math.NaN()}},
		"bytes":  []byte{0, 0xff}, "duration": time.Hour, "nothing": nil,
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for name, c := range map[string]struct {
		plugin   string
		settings map[string]string
		isJSON   bool
	}{
		"file":          {"file", map[string]string{"path": out}, true},
		"file debezium": {"file", map[string]string{"path": out, "sdk.record.format": "debezium/json"}, true},
		"file template": {"file", map[string]string{"path": out, "sdk.record.format": "template",
			"sdk.record.format.options": "{{ toJson .Payload.After }}"}, true},
		"file record": {"file", map[string]string{"path": out, "sdk.record.format": "template",
			"sdk.record.format.options": "{{ toJson . }}"}, true},
		"log":   {"log", map[string]string{}, false},
		"spool": {"spool", map[string]string{"path": filepath.Join(dir, "spool")}, false},
		"sqlite": {"sqlite", map[string]string{"path": filepath.Join(dir, "db"), "setup": "CREATE TABLE IF " +
			"NOT EXISTS t (v)", "table": "t"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, ctx := plugintest.OpenDestination(t, connectorOf(t, c.plugin), "p:d", c.settings)
			for kind, v := range values {
				_ = os.Remove(out)
				r := record.Record{Position: record.Position("\xff" + kind), Operation: record.OperationCreate,
					Metadata: record.Metadata{{Key: "caf\xe9", Value: "\xff"}},
					After:    record.Structured(map[string]any{"v": v})}
				if n, err := d.Write(ctx, []record.Record{r}); n != 1 || err != nil {
					t.Errorf("%s: wrote %d, %v", kind, n, err)
					continue
				}
				if !c.isJSON {
					continue
				}
				text, err := os.ReadFile(out)
				if err != nil || !json.Valid(text) {
					t.Errorf("%s: %s, %v", kind, text, err)
				}
				if strings.ContainsRune(string(text), '\uFFFD') || strings.Contains(string(text), `\ufffd`) {
					t.Errorf("%s: text was replaced: %s", kind, text)
				}
			}
		})
	}
}

func connectorOf(t *testing.T, name string) sdk.Connector {
	t.Helper()
	for _, c := range builtin.All() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no connector %s", name)
	return sdk.Connector{}
}
