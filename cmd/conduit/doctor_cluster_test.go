package main

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/cmd/conduit/doctor"
)

// A build without clusters finds fault with the settings of one, also when the server can be reached, and with nothing else.
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
		level    doctor.Level
		message  string
	}{
		"with clusters":  {config.Cluster{Name: "edge", NATS: config.NATS{URL: url}}, nil, doctor.OK, "can be reached"},
		"NATS":           {config.Cluster{Name: "edge", NATS: config.NATS{URL: url}}, absent, doctor.Error, "this build has no clusters"},
		"PostgreSQL":     {config.Cluster{Name: "edge", Postgres: config.Postgres{URL: "postgres://127.0.0.1:1/x"}}, absent, doctor.Error, "this build has no clusters"},
		"only a URL":     {config.Cluster{NATS: config.NATS{URL: url}}, absent, doctor.Error, "this build has no clusters"},
		"nothing is set": {config.Cluster{}, absent, doctor.OK, "no member of one"},
	} {
		found := doctor.Cluster(t.Context(), c.settings, c.absent)
		if found.Level != c.level || !strings.Contains(found.Message, c.message) ||
			(found.Advice == "") != (c.level == doctor.OK) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
