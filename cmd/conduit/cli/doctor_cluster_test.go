package cli

import (
	"net"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
)

// A binary without clusters reports the settings of a cluster, even when the server can be reached, and nothing else.
func TestDoctorExaminesTheCluster(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url, closed := "nats://"+server.Addr().String(), "postgres://127.0.0.1:1/x"
	for name, c := range map[string]struct {
		settings  config.Cluster
		contained *clustering.Cluster
		level     Level
		message   string
	}{
		"reached": {config.Cluster{Name: "edge", NATS: config.NATS{URL: url}}, parts.Cluster(), OK,
			"NATS is usable"},
		"the second": {config.Cluster{Name: "edge", NATS: config.NATS{URL: "nats://127.0.0.1:1," + url}},
			parts.Cluster(), OK, "NATS is usable"},
		"not reached": {config.Cluster{Name: "edge", NATS: config.NATS{URL: "nats://127.0.0.1:1"}},
			parts.Cluster(), Error, "refused"},
		"no PostgreSQL": {config.Cluster{Name: "edge", Postgres: config.Postgres{URL: closed}}, parts.Cluster(),
			Error, "edge: "},
		"no store": {config.Cluster{Name: "edge"}, parts.Cluster(), Error, "neither cluster.nats.url nor"},
		"alone":    {config.Cluster{}, parts.Cluster(), OK, "not in a cluster"},
		"NATS, none": {config.Cluster{Name: "edge", NATS: config.NATS{URL: url}}, nil, Error,
			"this binary does not support clusters"},
		"PostgreSQL, none": {config.Cluster{Name: "edge", Postgres: config.Postgres{URL: closed}}, nil, Error,
			"this binary does not support clusters"},
		"only a URL, none": {config.Cluster{NATS: config.NATS{URL: url}}, nil, Error, "this binary does not support " +
			"clusters"},
		"alone, none": {config.Cluster{}, nil, OK, "not in a cluster"},
	} {
		found := examineCluster(t.Context(), c.settings, c.contained)
		if found.Level != c.level || !strings.Contains(found.Message, c.message) ||
			(found.Advice == "") != (c.level == OK) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
