package agenttest

import (
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/delivery"
)

// Hasty are limits that find in a moment what takes half a minute otherwise.
func Hasty(a *agent.Agent) {
	a.Delivery.Interval = 20 * time.Millisecond
	a.Delivery.Limits = &delivery.Limits{Stuck: 500 * time.Millisecond, Report: 100 * time.Millisecond,
		Fresh: 90 * time.Second, Start: 5 * time.Second,
		Steady: 300 * time.Millisecond, Idle: 5 * time.Second, Regular: time.Minute}
}

// AtOnce has pipelines that are declared no longer stop and be forgotten at once.
func AtOnce(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 }

// ShortGrace has what no file declares stop soon, and keeps what is known of it.
func ShortGrace(c *config.Config) {
	c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 20*time.Millisecond, time.Hour
}

// RetryLater leaves what failed as it is until something changes.
func RetryLater(c *config.Config) { c.Pipelines.ErrorRecovery.MinDelay = time.Hour }

// ConfirmSoon has a version prove itself in a moment.
func ConfirmSoon(c *config.Config) { c.Pipelines.Confirm = 50 * time.Millisecond }
