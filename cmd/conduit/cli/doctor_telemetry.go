package cli

import (
	"context"
	"log/slog"

	"github.com/conduit-agent/conduit/agent/telemetry"
)

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
	exporter, err := e.Parts.Exporter(telemetry.ExporterSetup{Settings: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		e.add(check, Error, "correct the settings telemetry.*", "%v", err)
		return
	}
	works := true
	exporter.Check(ctx, func(problem error, remedy string) {
		works = false
		e.add(check, Warning, remedy, "%v", problem)
	})
	if works {
		e.add(check, OK, "", "the collector can be reached")
	}
}
