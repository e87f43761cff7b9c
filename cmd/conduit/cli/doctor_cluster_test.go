package cli

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
)

// A build without clusters reports the settings of a cluster, even when the server can be reached, and nothing else.
func TestDoctorOfABuildWithoutClusters(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url := "nats://" + server.Addr().String()
	absent := errors.New("this build has no clusters")
	for name, c := range map[string]struct {
		settings config.Cluster
		absent   error
		level    Level
		message  string
	}{
		"with clusters":  {config.Cluster{Name: "edge", NATS: config.NATS{URL: url}}, nil, OK, "can be reached"},
		"NATS":           {config.Cluster{Name: "edge", NATS: config.NATS{URL: url}}, absent, Error, "this build has no clusters"},
		"PostgreSQL":     {config.Cluster{Name: "edge", Postgres: config.Postgres{URL: "postgres://127.0.0.1:1/x"}}, absent, Error, "this build has no clusters"},
		"only a URL":     {config.Cluster{NATS: config.NATS{URL: url}}, absent, Error, "this build has no clusters"},
		"nothing is set": {config.Cluster{}, absent, OK, "no member of one"},
	} {
		found := examineCluster(t.Context(), c.settings, c.absent)
		if found.Level != c.level || !strings.Contains(found.Message, c.message) ||
			(found.Advice == "") != (c.level == OK) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
