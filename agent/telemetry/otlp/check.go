package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// reachTimeout bounds the attempt to reach the collector.
const reachTimeout = 3 * time.Second

// Check calls report for each problem of sending to the collector, with its remedy. It connects, and sends nothing.
func (e *Exporter) Check(ctx context.Context, report func(problem error, remedy string)) {
	u, _ := url.Parse(e.settings.Endpoint) // New has checked it
	if u.Scheme == "http" && e.settings.Headers != "" && u.Hostname() != "localhost" &&
		!net.ParseIP(u.Hostname()).IsLoopback() {
		report(errors.New("telemetry.otlp.endpoint is not encrypted"),
			"use https: without it anyone on the network path can read the headers")
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	dialer := net.Dialer{Timeout: reachTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		report(fmt.Errorf("cannot reach the collector: %w", err),
			"start the collector, or correct telemetry.otlp.endpoint; pipelines run without it")
		return
	}
	_ = connection.Close()
}
