package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// clusterCommand returns 'conduit cluster' and the commands below it.
func clusterCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "cluster",
		ShortUsage: "conduit cluster COMMAND [flags]",
		ShortHelp:  "Show which member of a cluster runs which pipeline; move pipelines to others.",
		LongHelp: `Agents with the same cluster.name share one set of pipelines; each pipeline runs on one
member. The commands query one running agent and show the cluster as that agent sees it.

Examples:
  conduit cluster status    list pipelines with their members
  conduit cluster members   list the members
  conduit cluster drain     move the pipelines of this agent to other members, before maintenance
  conduit cluster resume    accept pipelines again`,
		Subcommands: []*ffcli.Command{clusterStatusCommand(p), membersCommand(p), drainCommand(p), resumeCommand(p)},
	})
}

func clusterStatusCommand(p *Program) *ffcli.Command {
	return p.Remote("status", RemoteCommand{
		Usage: "conduit cluster status [PIPELINE]",
		Short: "Show which member runs each pipeline, since when and why.",
		Long: `REASON is the latest event that the queried agent knows about, or how the owner got the pipeline.
LAG is the time that a position has waited to be saved in the claim. Other members report it from
one second on. held means that a strict pipeline stops writing until its position is saved.
MODE is strict, relaxed or local. NEEDS lists the labels that a member must have. Both come from
the declaration on the queried agent. A pipeline with several instances has one line for each,
as in orders (2 of 3). DEAD LETTERS counts the dead letters in the store of the cluster, which
every member lists and replays, and those on the disks of members, as in 12,m2=3; to list and
replay the latter, run 'conduit dlq' with the address of that member. Pipelines that have only
dead letters here, such as one that is local to another member, have a line, too.
Below the table are the pipelines whose declared version failed, so that the last known good
version runs instead, on any member.

Example:
  conduit cluster status`,
		Optional: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			c, err := r.Cluster(ctx)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				c.Pipelines = slices.DeleteFunc(c.Pipelines, func(p spec.ClusterPipeline) bool {
					return p.ID != args[0]
				})
			}
			return showPipelines(r, &c)
		},
	})
}

func membersCommand(p *Program) *ffcli.Command {
	return p.Remote("members", RemoteCommand{
		Usage: "conduit cluster members",
		Short: "List the members of the cluster.",
		Long: `SILENT is the time since the queried agent last saw the member renew its session. After
cluster.ttl without renewal the member counts as gone, and others take its pipelines over.
DEAD LETTERS counts those on the member's own disk.

Example:
  conduit cluster members`,
		Exec: func(ctx context.Context, r *Remote, _ []string) error {
			c, err := r.Cluster(ctx)
			if err != nil {
				return err
			}
			return showMembers(r, &c)
		},
	})
}

func drainCommand(p *Program) *ffcli.Command {
	timeout := time.Minute
	return p.Remote("drain", RemoteCommand{
		Usage: "conduit cluster drain",
		Short: "Move the pipelines of the agent to other members.",
		Long: `Returns when the agent has no pipelines left. The agent accepts none until 'conduit cluster
resume' or a restart. An agent that shuts down gracefully drains by itself.

Example:
  conduit cluster drain --api.address m1:8080`,
		Flags: func(fs *flag.FlagSet) {
			fs.DurationVar(&timeout, "timeout", timeout, "maximum time to wait")
		},
		Exec: func(ctx context.Context, r *Remote, _ []string) error {
			c, err := r.DrainMember(ctx, client.Query("wait", timeout.String()))
			if err != nil {
				return err
			}
			return r.Say(c, "%s is %s", c.Member, c.State)
		},
	})
}

func resumeCommand(p *Program) *ffcli.Command {
	return p.Remote("resume", RemoteCommand{
		Usage: "conduit cluster resume",
		Short: "Let the agent accept pipelines again.",
		Long: `The agent rejoins within a few seconds. Other members hand over the pipelines that belong to it.

Example:
  conduit cluster resume`,
		Exec: func(ctx context.Context, r *Remote, _ []string) error {
			c, err := r.ResumeMember(ctx)
			if err != nil {
				return err
			}
			return r.Say(c, "%s accepts pipelines again", c.Member)
		},
	})
}

// sayState describes the agent's relation to a cluster, unless all is in order.
func sayState(r *Remote, c *spec.Cluster) {
	switch {
	case c.State == spec.MembershipAlone:
		fmt.Fprintln(r.Stdout, "the agent is not a member of a cluster")
	case c.State != spec.MembershipJoined:
		fmt.Fprintf(r.Stdout, "%s is %s\n", c.Member,
			strings.TrimSuffix(r.Paint(string(c.State), terminal.Yellow)+": "+c.Message, ": "))
	}
}

func showPipelines(r *Remote, c *spec.Cluster) error {
	if !r.JSON {
		sayState(r, c)
		if len(c.Pipelines) == 0 {
			return nil
		}
	}
	var t terminal.Table
	t.Add("PIPELINE", "MEMBER", "MODE", "NEEDS", "SINCE", "FROM", "REASON", "LAG", "DEAD LETTERS")
	for i := range c.Pipelines {
		p := &c.Pipelines[i]
		since, lag := "", ""
		if p.Since != nil {
			since = terminal.Moment(*p.Since)
		}
		if p.LagSeconds > 0 {
			lag = time.Duration(p.LagSeconds * float64(time.Second)).Round(time.Millisecond).String()
		}
		if p.Held {
			lag += ", held"
		}
		mode, needs := "", ""
		if p.Terms != nil {
			mode, needs = string(p.Terms.Mode), LabelText(p.Terms.Labels)
		}
		t.Add(claimWords(p), terminal.Dash(p.Member), terminal.Dash(mode), terminal.Dash(needs), terminal.Dash(since),
			terminal.Dash(p.From), terminal.Dash(p.Reason), terminal.Dash(lag), terminal.Dash(refused(p)))
	}
	if err := r.Show(c, &t); err != nil || r.JSON {
		return err
	}
	for i := range c.Pipelines {
		if f := c.Pipelines[i].Failed; f != nil {
			fmt.Fprintf(r.Stdout, "%s %s\n", r.Paint(claimWords(&c.Pipelines[i])+":", terminal.Yellow), f.Text())
		}
	}
	return nil
}

// claimWords returns the id of a pipeline, with the number of the instance and the number of instances.
func claimWords(p *spec.ClusterPipeline) string {
	switch {
	case p.Instance == 0:
		return p.ID
	case p.Terms == nil || p.Terms.Instances == "":
		return fmt.Sprintf("%s (%d)", p.ID, p.Instance)
	}
	return fmt.Sprintf("%s (%d of %s)", p.ID, p.Instance, p.Terms.Instances)
}

// refused returns the number of dead letters in the store of the cluster, and the members that have some on disk.
func refused(p *spec.ClusterPipeline) string {
	var texts []string
	if p.SharedDeadLetters > 0 {
		texts = append(texts, strconv.FormatInt(p.SharedDeadLetters, 10))
	}
	for _, m := range p.DeadLetters {
		texts = append(texts, fmt.Sprintf("%s=%d", m.Member, m.Count))
	}
	return strings.Join(texts, ",")
}

func showMembers(r *Remote, c *spec.Cluster) error {
	if !r.JSON {
		sayState(r, c)
		if len(c.Members) == 0 {
			return nil
		}
	}
	var t terminal.Table
	t.Add("MEMBER", "STATE", "PIPELINES", "CAPACITY", "LABELS", "VERSION", "STARTED", "SILENT", "ADDRESS",
		"DEAD LETTERS")
	for i := range c.Members {
		m := &c.Members[i]
		labels := make([]string, 0, len(m.Labels))
		for name, value := range m.Labels {
			labels = append(labels, name+"="+value)
		}
		slices.Sort(labels)
		silent := time.Duration(m.SilentSeconds * float64(time.Second)).Round(time.Second)
		t.Add(m.Name, m.State, m.Pipelines, m.Capacity, terminal.Dash(strings.Join(labels, ",")),
			terminal.Dash(m.Version), terminal.Moment(m.StartedAt), silent, terminal.Dash(m.Address), m.DeadLetters)
	}
	return r.Show(c, &t)
}
