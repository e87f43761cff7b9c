package wasm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
)

const (
	lifecycleTimeout = 30 * time.Second // time limit for a guest to configure or open
	teardownTimeout  = 5 * time.Second

	// maxCommand is the maximum number of bytes of records in one command, which holds at least one record. Decoded
	// records take several times as much memory in the guest.
	maxCommand = 1 << 20
)

// processor is an instance of a module.
type processor struct {
	module *module
	policy EgressPolicy

	settings map[string]string // settings of the guest
	config   guestConfig
	guest    *guest // nil: not started, or ended
	alone    int    // number of records that must still be sent one at a time
	end      func() // unregisters p as a user of the module; nil: not registered
}

// Parameters returns the parameters of the module, and those that declare its HTTP access.
func (p *processor) Parameters() sdk.Parameters {
	params := sdk.Described(egressConfig{}, descriptions)
	for name, q := range p.module.spec.GetParameters() {
		params[name] = parameterFrom(q)
	}
	return params
}

func parameterFrom(p *commonv1.Parameter) sdk.Parameter {
	out := sdk.Parameter{Default: p.GetDefault(), Description: p.GetDescription(), Type: sdk.ParameterType(p.GetType())}
	for _, v := range p.GetValidations() {
		out.Validations = append(out.Validations,
			sdk.Validation{Type: sdk.ValidationType(v.GetType()), Value: v.GetValue()})
	}
	return out
}

// schemaSettings are the settings of modules that decode and encode data by its schema. The host does this for them,
// once per shape of data instead of once per record.
var schemaSettings = []string{
	"sdk.schema.decode.key.enabled", "sdk.schema.decode.payload.enabled",
	"sdk.schema.encode.key.enabled", "sdk.schema.encode.payload.enabled",
}

// Configure starts a guest, which validates the settings.
func (p *processor) Configure(ctx context.Context, settings map[string]string) error {
	env := sdk.EnvFrom(ctx)
	var wanted egressConfig
	p.settings = maps.Clone(settings)
	asked := map[string]string{}
	for name := range sdk.ParametersOf(wanted) {
		if v, ok := p.settings[name]; ok {
			asked[name] = v
			delete(p.settings, name)
		}
	}
	if err := sdk.Decode(asked, &wanted); err != nil {
		return err
	}
	for _, name := range schemaSettings {
		if _, knows := p.module.spec.GetParameters()[name]; knows {
			p.settings[name] = "false"
		}
	}
	e, err := p.policy.NewClient(wanted, env.Logger)
	if err != nil {
		return sdk.SettingError{Setting: "sdk.egress.allow", Message: err.Error()}
	}
	p.config = guestConfig{
		processorID: env.ProcessorID, logLevel: logLevel(env.Logger), output: newOutput(env.Logger),
		services: services{processorID: env.ProcessorID, schemas: env.Schemas, bounds: p.module.modules.Bounds,
			egress: e},
	}
	if p.end == nil {
		p.module.users.add()
		p.end = p.module.modules.begin(env.ProcessorID, p.module)
	}
	return p.start(ctx)
}

// start starts a guest and configures it.
func (p *processor) start(ctx context.Context) (err error) {
	if err = p.module.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lifecycleTimeout)
	defer cancel()
	if p.guest, err = p.module.start(ctx, p.config); err != nil {
		return err
	}
	_, err = p.guest.ask(ctx, &wasmpb.CommandRequest{Request: &wasmpb.CommandRequest_Configure{
		Configure: &wasmpb.Configure_Request{Parameters: p.settings}}})
	return err
}

// Open opens the guest.
func (p *processor) Open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lifecycleTimeout)
	defer cancel()
	_, err := p.guest.ask(ctx,
		&wasmpb.CommandRequest{Request: &wasmpb.CommandRequest_Open{Open: &wasmpb.Open_Request{}}})
	return err
}

// Process sends the records to the guest, as many at a time as fit in a command. When the guest ends, fails as a whole
// or takes too long, a new guest gets the records one at a time, and records that it cannot process are refused. No
// guest gets a record twice, because it may remember in its memory that it has seen the record.
func (p *processor) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	for at := 0; at < b.Len(); {
		if b.Postpone(at) {
			break
		}
		end := p.commandEnd(b, at)
		n, err := p.processInTime(ctx, b, at, end)
		if isFailure(err) && ctx.Err() == nil {
			n, err = end-at, p.processEach(ctx, b, at, end, err)
		}
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// isFailure reports whether the guest ended, took too long, or answered with an error while it processed records. One
// of the records may be the cause.
func isFailure(err error) bool {
	var answered *guestError
	return errors.Is(err, errDied) || errors.As(err, &answered) || isLate(err)
}

func isLate(err error) bool {
	var late *sdk.TimeLimitError
	return errors.As(err, &late)
}

// processEach processes the records from at to end-1 one at a time after processing them together failed with the error
// failed.
func (p *processor) processEach(ctx context.Context, b *sdk.ProcessBatch, at, end int, failed error) error {
	if end-at == 1 {
		b.Refuse(at, fmt.Errorf("cannot process the record: %w", failed))
		return nil
	}
	if isLate(failed) {
		p.alone = aloneAfterLate
	}
	sdk.Logger(ctx).Warn("the processor failed: another instance gets the records one at a time", "err", failed)
	p.drop()
	for i := at; i < end; i++ {
		_, err := p.processInTime(ctx, b, i, i+1)
		if isFailure(err) && ctx.Err() == nil {
			err = p.processEach(ctx, b, i, i+1, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// aloneAfterLate is the number of records that are sent one at a time after a command took too long. Without it, every
// later batch would wait for the time limit before its records are sent one at a time.
const aloneAfterLate = 1000

// commandEnd returns the end of the records from at that fit in one command.
func (p *processor) commandEnd(b *sdk.ProcessBatch, at int) int {
	if p.alone > 0 {
		p.alone--
		return at + 1
	}
	size, end := 0, at
	for end < b.Len() && (end == at || size < maxCommand) {
		size += b.Record(end).Size()
		end++
	}
	return end
}

// processInTime is processRange with the time limit processors.timeout. The guest has all records of a command at once,
// so they share the limit.
func (p *processor) processInTime(ctx context.Context, b *sdk.ProcessBatch, at, end int) (n int, err error) {
	err = sdk.InTime(ctx, func(ctx context.Context) (err error) {
		n, err = p.processRange(ctx, b, at, end)
		return err
	})
	return n, err
}

// processRange processes the records from at to end-1 and returns the number of records whose result is known.
func (p *processor) processRange(ctx context.Context, b *sdk.ProcessBatch, at, end int) (int, error) {
	if err := p.ready(ctx); err != nil {
		return 0, err
	}
	encoded, sent := encode(b, at, end)
	if len(sent) == 0 {
		return end - at, nil
	}
	reply, err := p.guest.call(ctx, processCommand(encoded))
	if err != nil {
		p.drop()
		return 0, err
	}
	results, err := parseReply(reply, len(sent))
	if err != nil {
		return 0, fmt.Errorf("cannot process: %w", err)
	}
	if len(results) == 0 || len(results) > len(sent) {
		return 0, fmt.Errorf("cannot process: the processor was given %d records and returned %d", len(sent),
			len(results))
	}
	for i, r := range results {
		r.apply(b, sent[i])
	}
	if len(results) < len(sent) { // the guest gets the rest again
		return sent[len(results)] - at, nil
	}
	return end - at, nil
}

// ready starts a guest if there is none.
func (p *processor) ready(ctx context.Context) error {
	if p.guest != nil {
		return nil
	}
	err := p.start(ctx)
	if err == nil {
		err = p.Open(ctx)
	}
	if err != nil {
		p.drop()
		return fmt.Errorf("cannot start the processor again: %w", err) // not the fault of a record
	}
	return nil
}

// drop kills the guest without a teardown.
func (p *processor) drop() {
	if p.guest != nil {
		p.guest.kill()
		p.guest = nil
	}
}

// encode encodes the records as fields of Process.Request and returns the indices of the encoded records. It refuses
// records that it cannot encode.
func encode(b *sdk.ProcessBatch, at, end int) (encoded []byte, sent []int) {
	var one []byte
	for i := at; i < end; i++ {
		var err error
		if one, err = record.AppendWire(one[:0], b.Record(i)); err != nil {
			b.Refuse(i, fmt.Errorf("cannot hand the record to the processor: %w", err))
			continue
		}
		encoded = protowire.AppendTag(encoded, 1, protowire.BytesType)
		encoded = protowire.AppendBytes(encoded, one)
		sent = append(sent, i)
	}
	return encoded, sent
}

// apply applies the result to record i.
func (r *result) apply(b *sdk.ProcessBatch, i int) {
	switch r.kind {
	case sdk.Filtered:
		b.Filter(i)
	case sdk.Refused:
		b.Refuse(i, r.err)
	case sdk.Replaced:
		n := 0
		for p := range r.pieces {
			n += r.pieces[p].Memory()
		}
		if err := b.Take(i, n); err != nil {
			b.Refuse(i, err)
			return
		}
		b.Replace(i, r.pieces)
	default:
		if err := b.Take(i, r.record.Memory()); err != nil {
			b.Refuse(i, err)
			return
		}
		r.record.Position = b.Record(i).Position
		*b.Record(i) = r.record
	}
}

// Teardown tears down and ends the guest.
func (p *processor) Teardown(ctx context.Context) error {
	if p.end != nil {
		p.end()
		p.end = nil
		defer p.module.users.done()
	}
	if p.guest == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, teardownTimeout)
	defer cancel()
	_, err := p.guest.ask(ctx, &wasmpb.CommandRequest{
		Request: &wasmpb.CommandRequest_Teardown{Teardown: &wasmpb.Teardown_Request{}}})
	p.guest.stop(ctx)
	p.guest = nil
	return err
}
