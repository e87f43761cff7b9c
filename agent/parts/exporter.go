package parts

import (
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/agent/telemetry/otlp"
)

var _ telemetry.Exporter = (*otlp.Exporter)(nil)

// Exporter returns an exporter of telemetry to an OpenTelemetry collector.
func Exporter(s telemetry.ExporterSetup) (telemetry.Exporter, error) {
	return otlp.New(otlp.Options(s))
}
