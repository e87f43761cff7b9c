package cli

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/telemetry"
)

func dashboards(p *Program) *ffcli.Command {
	return printing(p, "dashboards", "Print a dashboard for Grafana.", `It is made of the metrics of this version, for Dashboards > New > Import, or a directory that
Grafana provisions dashboards from.

Example:
  conduit dashboards > conduit.json`, telemetry.Dashboard)
}

func alerts(p *Program) *ffcli.Command {
	return printing(p, "alerts", "Print alert rules for Prometheus.", `They are made of the metrics of this version, for rule_files in prometheus.yml.

Example:
  conduit alerts > /etc/prometheus/conduit.rules.yml`, func() []byte {
		return telemetry.Alerts(telemetry.AlertRules())
	})
}

// printing returns a command that prints the result of text.
func printing(p *Program, name, short, long string, text func() []byte) *ffcli.Command {
	flags := NewFlags(name)
	return &ffcli.Command{
		Name: name, ShortUsage: "conduit " + name, ShortHelp: short, LongHelp: long, FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			if _, err := Positional(flags, args, 0); err != nil {
				return err
			}
			_, err := p.Document().Write(text())
			return err
		},
	}
}
