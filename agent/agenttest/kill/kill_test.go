package kill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/kill"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(apiAddr); addr != "" {
		fmt.Fprintln(os.Stderr, serveAPI(addr))
		os.Exit(1)
	}
	kill.Main(m)
}

// TestFile runs the suite with the file connector on both sides: it has no server.
func TestFile(t *testing.T) {
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:file",
		System: func(_ *testing.T, dir string) *kill.System {
			path := filepath.Join(dir, "ledger")
			return &kill.System{
				Settings: func(string) map[string]string { return map[string]string{"path": path} },
				Produce: func(_ context.Context, first, n int) error {
					f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
					if err != nil {
						return err
					}
					defer func() { _ = f.Close() }()
					var lines []byte
					for i := range n {
						line, _ := json.Marshal(map[string]int{"n": first + i})
						lines = fmt.Appendf(lines, "%s\n", line)
					}
					_, err = f.Write(lines)
					return err
				},
			}
		},
	})
}
