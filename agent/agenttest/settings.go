package agenttest

import (
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/delivery"
)

// Hasty shortens the limits of the delivery check, so that it reports within a moment instead of half a minute.
func Hasty(a *agent.Agent) {
	a.Delivery.Interval = 20 * time.Millisecond
	a.Delivery.Limits = &delivery.Limits{Stuck: 500 * time.Millisecond, Report: 100 * time.Millisecond,
		Fresh: 90 * time.Second, Start: 5 * time.Second,
		Steady: 300 * time.Millisecond, Idle: 5 * time.Second, Regular: time.Minute}
}

// Attentive shortens the intervals between observations of pipelines and of the store to a moment.
func Attentive(a *agent.Agent) {
	const interval = 20 * time.Millisecond
	a.Rates.Interval, a.Silence.Interval, a.Delivery.Interval, a.Guard.Interval = interval, interval, interval, interval
}

// AtOnce stops and deletes pipelines as soon as no file declares them.
func AtOnce(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 }

// ShortGrace stops pipelines soon after no file declares them, and keeps their state.
func ShortGrace(c *config.Config) {
	c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 20*time.Millisecond, time.Hour
}

// RetryLater prevents retries of a failed pipeline before something changes.
func RetryLater(c *config.Config) { c.Pipelines.ErrorRecovery.MinDelay = time.Hour }

// ConfirmSoon shortens probation to a moment.
func ConfirmSoon(c *config.Config) { c.Pipelines.Confirm = 50 * time.Millisecond }
