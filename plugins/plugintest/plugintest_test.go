package plugintest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// faultVariable makes TestFaulty check the connector with this fault.
const faultVariable = "PLUGINTEST_FAULT"

// targets are the built-in connectors that need no server or files. The packages of the other connectors check those.
func targets() map[string]plugintest.Target {
	return map[string]plugintest.Target{
		"generator": {Connector: generator.Connector(), Source: func(_ testing.TB, n int) map[string]string {
			return map[string]string{"format.type": "structured", "format.options.id": "int",
				"recordCount": strconv.Itoa(n)}
		}},
		"file": {Connector: file.Connector(zstd.Codec{}), Source: fileOfLines, Destination: newFile, Written: payloadsIn},
		"log": {Connector: log.Connector(), Destination: func(testing.TB) map[string]string {
			return map[string]string{"level": "debug"}
		}},
	}
}

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

func newFile(t testing.TB) map[string]string {
	return map[string]string{"path": filepath.Join(t.TempDir(), "out")}
}

// payloadsIn returns the payloads of the records, one per line.
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

func TestInProcess(t *testing.T) {
	for name, target := range targets() {
		t.Run(name, func(t *testing.T) { plugintest.Run(t, target) })
	}
}

// TestFaulty runs the checks on a faulty connector. TestFaults runs it in a process and expects it to fail.
func TestFaulty(t *testing.T) {
	f, ok := faults[os.Getenv(faultVariable)]
	if !ok {
		return
	}
	plugintest.Run(t, faulty(f))
}

// TestFaults checks that every fault is found by the check intended for it.
func TestFaults(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pattern := "^TestFaulty$/^" + strings.ReplaceAll(f.found, "/", "$/^") + "$"
			if f.found == "" {
				pattern = "^TestFaulty$"
			}
			cmd := exec.CommandContext(t.Context(), exe, "-test.run", pattern, "-test.timeout", "30s")
			cmd.Env = append(os.Environ(), faultVariable+"="+name, "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if f.found == "" {
				if err != nil {
					t.Errorf("a connector without fault fails: %s", out)
				}
				return
			}
			want := "--- FAIL: TestFaulty/" + strings.ReplaceAll(f.found, " ", "_") + " "
			if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), f.says) {
				t.Errorf("ended with %v, want %q and %q in\n%s", err, want, f.says, out)
			}
		})
	}
}
