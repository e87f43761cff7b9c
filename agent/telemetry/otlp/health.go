package otlp

import (
	"log/slog"
	"strings"
	"sync/atomic"
)

// health logs when the collector begins to refuse a signal, or is out of reach, and when it accepts the signal again.
type health struct {
	log     *slog.Logger
	secrets []string // which a collector may repeat
	hint    string   // cause of a connection that the collector ends, "" for none
	failing atomic.Bool
}

func newHealth(log *slog.Logger, signal string, c *collector) *health {
	h := &health{log: log.With("component", "telemetry", "signal", signal), secrets: c.secrets()}
	if c.tls != nil && c.tls.GetClientCertificate != nil {
		h.hint = "the collector may refuse the certificate in telemetry.otlp.cert-file"
	}
	return h
}

// shortestSecret is the length of the shortest value of a header that is redacted in errors.
const shortestSecret = 4

func (h *health) failed(err error) {
	if h.failing.Swap(true) {
		return
	}
	text := err.Error()
	for _, s := range h.secrets {
		if len(s) >= shortestSecret {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	// The alert with the cause can be lost when the collector ends the connection.
	if h.hint != "" && !strings.Contains(text, "certificate") {
		text += "; " + h.hint
	}
	h.log.Warn("cannot send telemetry to the collector; pipelines are not affected", "err", text)
}

// succeeded records that a transmission succeeded. dropped is the number of items lost since the start.
func (h *health) succeeded(dropped uint64) {
	if h.failing.Swap(false) {
		h.log.Info("the collector accepts telemetry again", "dropped", dropped)
	}
}
