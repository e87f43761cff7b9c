package cli

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/conduit-agent/conduit/agent/telemetry"
)

// collectorTimeout bounds the attempt to reach the collector.
const collectorTimeout = 3 * time.Second

// telemetry checks the settings for a collector, if there are any, and whether it can be reached. It sends nothing.
func (e *examination) telemetry(ctx context.Context) {
	const check = "telemetry"
	c := e.config.Telemetry
	switch {
	case c.OTLP.Endpoint == "":
		e.add(check, OK, "", "not configured")
		return
	case e.Parts.Exporter == nil:
		e.add(check, Error, "", "%v", telemetry.ErrNoExporter)
		return
	}
	_, err := e.Parts.Exporter(telemetry.ExporterSetup{Settings: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		e.add(check, Error, "correct the settings telemetry.*", "%v", err)
		return
	}
	u, _ := url.Parse(c.OTLP.Endpoint) // it is valid, see above
	if u.Scheme == "http" && c.OTLP.Headers != "" && u.Hostname() != "localhost" &&
		!net.ParseIP(u.Hostname()).IsLoopback() {
		e.add(check, Warning, "use https: without it anyone on the network path can read the headers",
			"telemetry.otlp.endpoint is not encrypted")
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	dialer := net.Dialer{Timeout: collectorTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		e.add(check, Warning, "start the collector, or correct telemetry.otlp.endpoint; pipelines run without it",
			"cannot reach the collector: %v", err)
		return
	}
	_ = connection.Close()
	e.add(check, OK, "", "the collector can be reached")
}
