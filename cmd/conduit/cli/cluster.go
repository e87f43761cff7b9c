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
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// clusterCommand returns 'conduit cluster' and the commands below it.
func clusterCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "cluster",
		ShortUsage: "conduit cluster COMMAND [flags]",
		ShortHelp:  "See which agent of a cluster runs what, and give pipelines to others.",
		LongHelp: `Agents with the same cluster.name run one set of pipelines, each pipeline on one
of them. The commands ask one running agent, which answers as it knows it.

Examples:
  conduit cluster status    who runs which pipeline since when
  conduit cluster members   the agents
  conduit cluster drain     give the pipelines of this agent to others, before maintenance
  conduit cluster resume    take pipelines again`,
		Subcommands: []*ffcli.Command{clusterStatusCommand(p), membersCommand(p), drainCommand(p), resumeCommand(p)},
	})
}

func clusterStatusCommand(p *Program) *ffcli.Command {
	return p.Remote("status", RemoteCommand{
		Usage: "conduit cluster status [PIPELINE]",
		Short: "Show who runs which pipeline since when, and why.",
		Long: `REASON is what the agent that answers noticed of the pipeline last, or how its owner got it. LAG is how long a
position has waited to be in the claim, of another member from one second on, as it said last;
held is said of a strict pipeline that writes nothing more until it is there.
MODE is strict, relaxed or local, and NEEDS are the labels that a member must have, as the
agent that answers has the pipeline declared. A pipeline with several instances has a line for
each, as in orders (2 of 3). DEAD LETTERS are how many of the pipeline are in the store of the cluster,
which every member lists and replays, and how many on the disks of which members, as in 12,m2=3;
'conduit dlq' with the address of such a member lists and replays those. A pipeline that is only to be
seen for them, such as one that is local to another member, has a line, too.
Below the table it says of which pipelines the declared version failed, so that the last known
good one runs in its place, on whichever member.

Example:
  conduit cluster status`,
		Optional: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			c, err := r.Cluster(ctx)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				c.Pipelines = slices.DeleteFunc(c.Pipelines, func(p rest.ClusterPipeline) bool {
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
		Short: "Show the agents of the cluster.",
		Long: `SILENT is for how long the agent that answers has not seen the session of the member
renewed. One that is silent for cluster.ttl is gone, and others take its pipelines over. DEAD LETTERS
are those on its own disk.

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
		Short: "Give the pipelines of the agent to other members.",
		Long: `It returns when the agent has none. The agent takes none until 'conduit cluster resume',
or until it starts again. An agent that ends in order does the same by itself.

Example:
  conduit cluster drain --api.address m1:8080`,
		Flags: func(fs *flag.FlagSet) {
			fs.DurationVar(&timeout, "timeout", timeout, "how long to wait at most")
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
		Short: "Have the agent take pipelines again.",
		Long: `It is a member again within a few seconds, and takes pipelines that belong to it as others
hand them over.

Example:
  conduit cluster resume`,
		Exec: func(ctx context.Context, r *Remote, _ []string) error {
			c, err := r.ResumeMember(ctx)
			if err != nil {
				return err
			}
			return r.Say(c, "%s takes pipelines again", c.Member)
		},
	})
}

// sayState describes the agent's relation to a cluster, unless all is in order.
func sayState(r *Remote, c *rest.Cluster) {
	switch {
	case c.State == rest.ClusterAlone:
		fmt.Fprintln(r.Stdout, "the agent is no member of a cluster")
	case c.State != rest.ClusterJoined:
		fmt.Fprintf(r.Stdout, "%s is %s\n", c.Member,
			strings.TrimSuffix(r.Paint(string(c.State), terminal.Yellow)+": "+c.Message, ": "))
	}
}

func showPipelines(r *Remote, c *rest.Cluster) error {
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
func claimWords(p *rest.ClusterPipeline) string {
	switch {
	case p.Instance == 0:
		return p.ID
	case p.Terms == nil || p.Terms.Instances == "":
		return fmt.Sprintf("%s (%d)", p.ID, p.Instance)
	}
	return fmt.Sprintf("%s (%d of %s)", p.ID, p.Instance, p.Terms.Instances)
}

// refused returns the number of dead letters in the store of the cluster, and the members that have some on disk.
func refused(p *rest.ClusterPipeline) string {
	var texts []string
	if p.SharedDeadLetters > 0 {
		texts = append(texts, strconv.FormatInt(p.SharedDeadLetters, 10))
	}
	for _, m := range p.DeadLetters {
		texts = append(texts, fmt.Sprintf("%s=%d", m.Member, m.Count))
	}
	return strings.Join(texts, ",")
}

func showMembers(r *Remote, c *rest.Cluster) error {
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
