package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// fault makes one fault that the agent must survive, or none.
func (c *campaign) fault(ctx context.Context, a *agentProcess) error {
	f := &c.report.Faults
	switch c.random.IntN(6) {
	case 0:
		f.Pauses++
		return c.hang(ctx, a.pid(), c.soon(time.Second))
	case 1:
		if plugin := c.plugin(a); plugin > 0 && syscall.Kill(plugin, syscall.SIGKILL) == nil {
			f.PluginCrashes++
		}
	case 2:
		if plugin := c.plugin(a); plugin > 0 {
			f.PluginHangs++
			return c.hang(ctx, plugin, c.soon(time.Second))
		}
	case 3:
		if !c.state.Separate() {
			return nil
		}
		f.FullDisks++
		if err := c.state.Fill(); err != nil {
			return err
		}
		return errors.Join(pause(ctx, c.soon(600*time.Millisecond)), c.state.Free())
	}
	return nil
}

// hang stops a process for a while: from its view, time jumps.
func (c *campaign) hang(ctx context.Context, pid int, d time.Duration) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil // it has ended meanwhile
	}
	err := pause(ctx, d)
	_ = syscall.Kill(pid, syscall.SIGCONT)
	return err
}

// plugin returns a connector process of the agent, 0 for none.
func (c *campaign) plugin(a *agentProcess) int {
	all := childrenOf(a.pid())
	if len(all) == 0 {
		return 0
	}
	return all[c.random.IntN(len(all))]
}

// edit edits pipeline files until ctx ends, and then restores them.
func (c *campaign) edit(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		p := &c.pipelines[random.IntN(len(c.pipelines))]
		if err := c.editOne(ctx, p, random); err != nil {
			return err
		}
		c.report.Faults.Edits++
		_ = pause(ctx, time.Duration(random.Int64N(int64(150*time.Millisecond))))
	}
	for i := range c.pipelines {
		if err := c.write(&c.pipelines[i]); err != nil {
			return err
		}
	}
	return nil
}

// editOne edits one file. Some edits are undone again.
func (c *campaign) editOne(ctx context.Context, p *spec.Pipeline, random *rand.Rand) error {
	edited := p.Clone()
	switch random.IntN(5) {
	case 0:
		edited.Description = fmt.Sprintf("edited %d", random.Int32())
	case 1: // replaced in place
		edited.Processors = append(edited.Processors,
			spec.Processor{ID: "prove-edit", Plugin: "builtin:field.set", Workers: 1,
				Settings: map[string]string{"field": ".Metadata.edited", "value": fmt.Sprint(random.Int32())}})
	case 2: // needs a restart
		c := &edited.Connectors[random.IntN(len(edited.Connectors))]
		c.Settings["note"] = fmt.Sprint(random.Int32())
	case 3: // a file that is not valid
		if err := save(c.path(p), append(spec.Marshal(*p), "\n  - : [\n"...)); err != nil {
			return err
		}
		_ = pause(ctx, 50*time.Millisecond)
	case 4: // a file that is missing for a moment
		if err := os.Remove(c.path(p)); err != nil {
			return fmt.Errorf("cannot remove a pipeline file: %w", err)
		}
		_ = pause(ctx, 50*time.Millisecond)
	}
	return c.write(edited)
}
