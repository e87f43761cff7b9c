package otlp

import (
	"log/slog"
	"sync/atomic"
)

// health logs when the collector begins to refuse a signal, or is out of reach, and when it accepts the signal again.
type health struct {
	log     *slog.Logger
	failing atomic.Bool
}

func newHealth(log *slog.Logger, signal string) *health {
	return &health{log: log.With("component", "telemetry", "signal", signal)}
}

func (h *health) failed(err error) {
	if !h.failing.Swap(true) {
		h.log.Warn("cannot send telemetry to the collector; pipelines are not affected", "err", err)
	}
}

// succeeded records that a transmission succeeded. dropped is the number of items lost since the start.
func (h *health) succeeded(dropped uint64) {
	if h.failing.Swap(false) {
		h.log.Info("the collector accepts telemetry again", "dropped", dropped)
	}
}
