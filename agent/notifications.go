package agent

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/conduit-agent/conduit/agent/access"
	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/notification"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// wireNotifications creates the detector of silent pipelines and the notifier that sends notifications to the targets
// in the settings.
func wireNotifications(ctx context.Context, a *Agent) error {
	a.Silence = &notification.Silence{
		Declarations: a.Store.DeclarationsSince,
		State:        a.Loop.State,
		Records:      func(id string) uint64 { return recordsRead(a, id) },
		Save:         a.Store.Apply,
		Log:          a.options.Log,
	}
	targets, kinds, err := notifyTargets(a)
	if err != nil {
		return config.Invalid(err)
	}
	a.notifier = &notification.Notifier{
		Agent:    notifierName(a),
		Targets:  targets,
		Selected: kinds,
		Interval: a.options.Config.Notify.Interval,
		Events:   a.Store.Events,
		State:    a.Loop.State,
		Here:     func(id string) bool { return a.Loop.OwnedElsewhere == nil || !a.Loop.OwnedElsewhere(id, false) },
		Changes:  &a.changes,
		Log:      a.options.Log,
	}
	if isolation := a.Runner.Isolation; isolation != nil {
		a.notifier.Backlogs = func(id string) map[string]spec.Backlog {
			if running, _ := a.Runner.Pipeline(id); running != nil {
				return isolation.Backlogs(running)
			}
			return nil
		}
	}
	a.metrics.Silent, a.metrics.Notifications = a.Silence.All, a.notifier.Counts
	return a.notifier.Begin(ctx)
}

// recordsRead returns how many records the sources of a pipeline have read.
func recordsRead(a *Agent, id string) (n uint64) {
	if _, stats := a.Runner.Pipeline(id); stats != nil {
		stats.Each(func(typ spec.ConnectorType, _ string, c *measure.Connector) {
			if typ == spec.TypeSource {
				n += c.Records.Load()
			}
		})
	}
	return n
}

// notifyTargets returns the targets of notifications in the settings, with the kinds that each target receives.
func notifyTargets(a *Agent) (targets []notification.Target, kinds []notification.Kind, err error) {
	c := a.options.Config.Notify
	if kinds, err = notification.ParseKinds(c.Kinds); err != nil {
		return nil, nil, fmt.Errorf("cannot use notify.kinds: %w", err)
	}
	var secret func() (string, error)
	if file := c.Webhook.SecretFile; file != "" {
		secret = func() (string, error) {
			text, err := access.Token(a.options.Log, "notify.webhook.secret-file", file)
			if err == nil {
				err = notification.CheckSecret(text)
			}
			return text, err
		}
		if _, err := secret(); err != nil {
			return nil, nil, err
		}
	}
	if c.Webhook.URL != "" {
		hook, err := notification.NewWebhook(c.Webhook.URL, secret, a.options.Version)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot use notify.webhook.url: %w", err)
		}
		targets = append(targets, hook)
	}
	if c.Command.Run != "" {
		command, err := notification.NewCommand(c.Command.Run, catalog.ConnectorEnvironment(a.options.Config),
			c.Command.Timeout)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot use notify.command.run: %w", err)
		}
		targets = append(targets, command)
	}
	return targets, kinds, nil
}

// notifierName is the name of this agent in notifications.
func notifierName(a *Agent) string {
	host, _ := os.Hostname()
	return cmp.Or(a.options.Config.Cluster.Member, host, "this host")
}

// testNotifications returns a function that sends a notification to every target.
func testNotifications(n *notification.Notifier) func(ctx context.Context) []spec.NotificationResult {
	return func(ctx context.Context) (results []spec.NotificationResult) {
		for _, r := range n.Test(ctx) {
			one := spec.NotificationResult{Target: r.Target, Delivered: r.Err == nil, Seconds: r.Took.Seconds()}
			if r.Err != nil {
				one.Error = texts.TruncateError(r.Err.Error())
			}
			results = append(results, one)
		}
		return results
	}
}
