package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/protocol"
)

// TestConnector checks everything that hosts expect of a connector.
func TestConnector(t *testing.T) {
	inProcess := target()
	inProcess.Connector = connector
	plugintest.Run(t, inProcess)
}

// TestExecutable checks it over the protocol in which an agent talks to the executable.
func TestExecutable(t *testing.T) {
	served := target()
	served.Start = protocol.InProcess(connector)
	plugintest.Run(t, served)
}

// target has the settings and the results that the checks need.
func target() plugintest.Target {
	return plugintest.Target{
		Source: func(testing.TB, int) map[string]string {
			return map[string]string{"text": "hello", "interval": "10us"}
		},
		Destination: func(t testing.TB) map[string]string {
			return map[string]string{"path": filepath.Join(t.TempDir(), "out.csv")}
		},
		Written: payloads,
	}
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
