package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest"
)

// TestConnector checks everything that hosts expect of a connector.
func TestConnector(t *testing.T) {
	plugintest.Run(t, plugintest.Target{
		Connector: connector,
		Source: func(testing.TB, int) map[string]string {
			return map[string]string{"text": "hello", "interval": "10us"}
		},
		Destination: func(t testing.TB) map[string]string {
			return map[string]string{"path": filepath.Join(t.TempDir(), "out.csv")}
		},
		Written: payloads,
	})
}

// payloads returns the last column of the file.
func payloads(t testing.TB, settings map[string]string) (all []string) {
	f, err := os.Open(settings["path"])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		all = append(all, row[2])
	}
	return all
}
