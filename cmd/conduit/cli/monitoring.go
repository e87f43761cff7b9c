package cli

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/telemetry"
)

func dashboards(p *Program) *ffcli.Command {
	return printing(p, "dashboards", "Print a dashboard for Grafana.", `It shows the metrics of this version.
Use it with Dashboards > New > Import, or in a directory that
Grafana provisions dashboards from.

Example:
  conduit dashboards > conduit.json`, telemetry.Dashboard)
}

func alerts(p *Program) *ffcli.Command {
	return printing(p, "alerts", "Print alert rules for Prometheus.", `They use the metrics of this version.
List the file in rule_files of prometheus.yml.

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
