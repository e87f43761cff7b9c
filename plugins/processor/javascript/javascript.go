package javascript

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dop251/goja"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

type config struct {
	// The text of the script. It has to define a function process, which gets a record and returns the result.
	Script string `json:"script"`
	// A file with the script, instead of script.
	Path string `json:"script.path"`
	// Timeout of the script for one record; at most 10s.
	Timeout time.Duration `json:"timeout" default:"1s" validate:"gt=0s,lt=10001ms"`
	// By how many bytes the memory of the agent may grow while the script handles one record.
	Memory int64 `json:"memory" default:"134217728" validate:"gt=1048575"`
}

// processor runs a script for every record.
type processor struct {
	config  config
	program *goja.Program
	guard   guard
	leak    leak
	log     *slog.Logger
	runtime *runtime
}

func newProcessor() sdk.Processor { return &processor{} }

func (*processor) Parameters() sdk.Parameters { return sdk.Described(config{}, descriptions) }

// Configure compiles the script and runs it once, so that errors outside of process are found when a declaration is
// checked.
func (p *processor) Configure(ctx context.Context, settings map[string]string) error {
	if err := sdk.Decode(settings, &p.config); err != nil {
		return err
	}
	if err := sdk.CheckPath(ctx, "script.path", p.config.Path); err != nil {
		return err
	}
	name, text, err := p.config.readScript(ctx)
	if err != nil {
		return err
	}
	if p.program, err = compile(name, text); err != nil {
		return settingError(p.config.setting(), err.Error())
	}
	p.guard.timeout, p.guard.memory = p.config.Timeout, uint64(p.config.Memory)
	p.guard.late = fmt.Errorf("the script took longer than %v", p.config.Timeout)
	if limit := sdk.EnvFrom(ctx).TimeLimit; limit > 0 && limit < p.config.Timeout {
		p.guard.timeout, p.guard.late = limit, &sdk.TimeLimitError{Limit: limit}
	}
	p.leak.limit = uint64(p.config.Memory)
	p.log = slog.New(slog.DiscardHandler)
	if _, err := p.start(); err != nil {
		return settingError(p.config.setting(), err.Error())
	}
	return nil
}

func (c *config) setting() string {
	if c.Path != "" {
		return "script.path"
	}
	return "script"
}

func settingError(setting, message string) error {
	return sdk.SettingError{Setting: setting, Message: message}
}

func (p *processor) start() (*runtime, error) {
	return newRuntime(p.program, newScriptLog(p.log), &p.guard)
}

func (p *processor) Open(ctx context.Context) (err error) {
	p.log = sdk.Logger(ctx)
	p.runtime, err = p.start()
	return err
}

func (p *processor) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	if p.leak.found(b.Len(), p.log) {
		if err := p.Open(ctx); err != nil {
			return fmt.Errorf("cannot restart the script: %w", err)
		}
	}
	p.guard.begin(p.runtime.vm)
	defer p.guard.end()
	for i := range b.Records(ctx) {
		p.guard.next()
		p.processOne(b, i)
		if !p.runtime.broken {
			continue
		}
		p.guard.end()
		if err := p.Open(ctx); err != nil {
			return fmt.Errorf("cannot restart the script: %w", err)
		}
		p.guard.begin(p.runtime.vm)
	}
	return ctx.Err()
}

func (p *processor) processOne(b *sdk.ProcessBatch, i int) {
	out, err := p.runtime.run(b.Record(i))
	if err == nil {
		err = b.Take(i, out.memory())
	}
	switch {
	case err != nil:
		b.Refuse(i, err)
	case out.filtered:
		b.Filter(i)
	case out.pieces != nil:
		b.Replace(i, out.pieces)
	default:
		out.record.Position = b.Record(i).Position
		*b.Record(i) = out.record
	}
}

// memory returns the memory of the outcome in bytes.
func (o *outcome) memory() (n int) {
	for i := range o.pieces {
		n += o.pieces[i].Memory()
	}
	if o.pieces == nil && !o.filtered {
		n = o.record.Memory()
	}
	return n
}

func (p *processor) Teardown(context.Context) error {
	p.runtime = nil
	return nil
}
