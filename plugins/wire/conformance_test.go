package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/protocol"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// targets returns the connectors that need no server. Their own packages check them in process.
func targets() map[string]plugintest.Target {
	return map[string]plugintest.Target{
		"generator": {Connector: generator.Connector(), Source: func(_ testing.TB, n int) map[string]string {
			return map[string]string{"format.type": "structured", "format.options.id": "int",
				"recordCount": strconv.Itoa(n)}
		}},
		"file": {Connector: file.Connector(zstd.Codec{}), Source: fileOfLines, Written: payloadsIn,
			Destination: func(t testing.TB) map[string]string {
				return map[string]string{"path": out(t)}
			}},
		"log": {Connector: log.Connector(), Destination: func(testing.TB) map[string]string {
			return map[string]string{"level": "debug"}
		}},
	}
}

func out(t testing.TB) string { return filepath.Join(t.TempDir(), "out") }

func fileOfLines(t testing.TB, n int) map[string]string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, "line", i)
	}
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"path": path}
}

// payloadsIn returns the payloads of the records in the file named by the settings, one per line.
func payloadsIn(t testing.TB, settings map[string]string) (payloads []string) {
	content, err := os.ReadFile(settings["path"])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var r record.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("cannot read %q: %v", line, err)
		}
		after, _ := r.After.Raw()
		payloads = append(payloads, string(after))
	}
	return payloads
}

// TestConformance checks the contract of connectors over the protocol: all connectors within this process, and one that
// is both a source and a destination as an executable. A campaign runs all as executables.
func TestConformance(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range targets() {
		t.Run(name, func(t *testing.T) {
			here, process := target, target
			here.Connector, here.Start = sdk.Connector{}, protocol.InProcess(target.Connector)
			env := append(os.Environ(), serveVariable+"="+name, "GORACE=atexit_sleep_ms=0")
			process.Connector, process.Start = sdk.Connector{}, protocol.Executable(exe, env)
			t.Run("served here", func(t *testing.T) { t.Parallel(); plugintest.Run(t, here) })
			if name == "file" {
				t.Run("executable", func(t *testing.T) { t.Parallel(); plugintest.Run(t, process) })
			}
		})
	}
}
