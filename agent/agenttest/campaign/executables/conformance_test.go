package executables_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/protocol"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// everyConnector checks all targets instead of file alone. The host is the same for all.
var everyConnector = flag.Bool("every-connector", false, "check every connector as an executable")

// connectorVariable makes this test binary the target with that name.
const connectorVariable = "EXECUTABLES_TEST_CONNECTOR"

// targets are connectors that need no server. Their packages check them in process.
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
		"exec": {Connector: exec.Connector(exec.Options{Enabled: true}),
			Source: func(t testing.TB, n int) map[string]string {
				return map[string]string{"command": command(t, "seq", strconv.Itoa(n)), "resume": "skip",
					"format": "raw"}
			}, Written: payloadsIn, Destination: func(t testing.TB) map[string]string {
				const confirm = `while IFS= read -r line; do printf '%s\n' "$line" >>"$0" && echo ok; done`
				path := out(t)
				return map[string]string{"command": command(t, "sh", "-c", confirm, path), "confirm": "true",
					"backoff.min": "1ms"}
			}},
	}
}

// command returns a command of the exec connector.
func command(t testing.TB, args ...string) string {
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
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

// payloadsIn returns the payloads of the records, one per line, in the file that the settings name.
func payloadsIn(t testing.TB, settings map[string]string) (payloads []string) {
	path := settings["path"]
	if path == "" {
		var args []string
		if err := json.Unmarshal([]byte(settings["command"]), &args); err != nil {
			t.Fatal(err)
		}
		path = args[len(args)-1]
	}
	content, err := os.ReadFile(path)
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

// Connectors keep the contract as executables.
func TestConformance(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range targets() {
		if !*everyConnector && name != "file" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			load.Parallel(t, 2*load.Agent)
			target.Timeout = 30 * time.Second // the machine is busy with other tests
			target.Connector, target.Start = sdk.Connector{},
				protocol.Executable(exe, append(os.Environ(), connectorVariable+"="+name, "GORACE=atexit_sleep_ms=0"))
			plugintest.Run(t, target)
		})
	}
}
