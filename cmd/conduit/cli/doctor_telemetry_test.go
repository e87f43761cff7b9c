package cli

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
)

func TestDoctorChecksTheCollector(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		endpoint, headers string
		level             Level
		message           string
	}{
		{"", "", OK, "not configured"},
		{"http://" + l.Addr().String(), "a=b", OK, "can be reached"},
		{"http://" + agenttest.ClosedPort(t), "", Warning, "cannot reach the collector"},
		{"http://192.0.2.1:1x", "", Error, "telemetry.otlp.endpoint"},
		{"localhost:4318", "", Error, "begins with http://"},
	} {
		e := &examination{Program: &Program{Parts: Parts{Exporter: parts.Exporter}}}
		c, _, err := config.Load(config.Sources{Path: "/dev/null"})
		if err != nil {
			t.Fatal(err)
		}
		e.config = c
		e.config.Telemetry.OTLP.Endpoint, e.config.Telemetry.OTLP.Headers = tt.endpoint, tt.headers
		e.telemetry(t.Context())
		if len(e.findings) != 1 || e.findings[0].Level != tt.level ||
			!strings.Contains(e.findings[0].Message, tt.message) {
			t.Errorf("%q: found %v", tt.endpoint, e.findings)
		}
		e.Parts.Exporter, e.findings = nil, nil
		if e.telemetry(t.Context()); tt.endpoint != "" && (len(e.findings) != 1 || e.findings[0].Level != Error ||
			!strings.Contains(e.findings[0].Message, "this binary does not send telemetry")) {
			t.Errorf("%q without an exporter: found %v", tt.endpoint, e.findings)
		}
	}
	e := &examination{Program: &Program{Parts: Parts{Exporter: parts.Exporter}}}
	e.config.Telemetry = config.Telemetry{OTLP: config.OTLP{Endpoint: "http://192.0.2.1", Headers: "a=b"}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is reached
	if e.telemetry(ctx); len(e.findings) != 2 || e.findings[0].Message != "telemetry.otlp.endpoint is not encrypted" {
		t.Errorf("headers without encryption: found %v", e.findings)
	}
}
