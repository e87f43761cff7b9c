package wasm

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
)

// Codes that host functions return instead of a size.
const (
	codeNoMoreCommands         = 4294967294
	codeUnknownCommandResponse = 4294967292
	codeOutOfRange             = 4294967291
	codeInternal               = 4294967290
	codeSubjectNotFound        = 4294967289
	codeVersionNotFound        = 4294967288
	codeInvalidSchema          = 4294967287
	codeEgressDisabled         = 4294967286
	codeEgressForbidden        = 4294967285
	codeEgressInvalid          = 4294967284
	codeEgressDNS              = 4294967283
	codeEgressTimeout          = 4294967282
	codeEgressTooLarge         = 4294967281
	codeEgressTransport        = 4294967280
)

// Names that every guest imports.
const (
	hostModule     = "conduit"
	commandRequest = "command_request"
)

// instantiateHost makes the host module. Its functions take a buffer and return the size of the data they wrote to
// it, or a code.
func instantiateHost(ctx context.Context, r wazero.Runtime) error {
	builder := r.NewHostModuleBuilder(hostModule)
	for name, f := range map[string]func(*guest, context.Context, buffer) uint32{
		commandRequest:     (*guest).commandRequest,
		"command_response": (*guest).commandResponse,
		"create_schema":    service((*guest).createSchema),
		"get_schema":       service((*guest).getSchema),
		"http_request":     service((*guest).httpRequest),
	} {
		call := func(ctx context.Context, m api.Module, stack []uint64) {
			b := buffer{m.Memory(), uint32(stack[0]), uint32(stack[1])}
			code := uint32(codeInternal)
			if g := guestFrom(ctx); g != nil && b.memory != nil {
				code = f(g, ctx, b)
			}
			endIfKilled(ctx, m)
			stack[0] = uint64(code)
		}
		builder = builder.NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(call), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32},
				[]api.ValueType{api.ValueTypeI32}).
			Export(name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// endIfKilled ends a killed guest instead of returning to it, so that it does not log that its call failed.
func endIfKilled(ctx context.Context, m api.Module) {
	if ctx.Err() != nil {
		_ = m.CloseWithExitCode(ctx, sys.ExitCodeContextCanceled)
		panic(sys.NewExitError(sys.ExitCodeContextCanceled))
	}
}

// buffer is a region of a guest's memory.
type buffer struct {
	memory    api.Memory
	at, space uint32
}

func (b buffer) bytes() ([]byte, bool) { return b.memory.Read(b.at, b.space) }

// commandRequest waits for the next command and writes it to b. A command that is too long is kept for the next call.
func (g *guest) commandRequest(ctx context.Context, b buffer) uint32 {
	if g.command == nil {
		select {
		case command, ok := <-g.commands:
			if !ok {
				return codeNoMoreCommands
			}
			g.command = command
		case <-ctx.Done():
			return codeInternal
		}
	}
	size := uint32(len(g.command))
	if size > b.space {
		return size
	}
	if !b.memory.Write(b.at, g.command) {
		return codeOutOfRange
	}
	g.command, g.awaiting, g.parked = nil, true, parked{}
	return size
}

// commandResponse reads the answer to the last command from b.
func (g *guest) commandResponse(ctx context.Context, b buffer) uint32 {
	content, ok := b.bytes()
	if !ok {
		return codeOutOfRange
	}
	if !g.awaiting {
		return codeUnknownCommandResponse
	}
	var r reply
	if r.err = tooLarge(len(content), maxReply); len(content) <= maxReply {
		r = reply{content: slices.Clone(content)}
	}
	select {
	case g.replies <- r:
		g.awaiting = false
		return 0
	case <-ctx.Done():
		return codeInternal
	}
}

// parked is an answer that was too long for the buffer. The next call that begins with the same request gets it.
type parked struct{ request, answer []byte }

// service wraps f, which answers a request, as a host function.
func service(
	f func(g *guest, ctx context.Context, request []byte) (answer proto.Message, code uint32),
) func(*guest, context.Context, buffer) uint32 {
	return func(g *guest, ctx context.Context, b buffer) uint32 {
		request, ok := b.bytes()
		if !ok || len(request) > maxReply {
			return codeOutOfRange
		}
		answer := g.parked.answer
		if answer == nil || !bytes.HasPrefix(request, g.parked.request) {
			m, code := f(g, ctx, request)
			if code != 0 {
				return code
			}
			var err error
			if answer, err = proto.Marshal(m); err != nil {
				return codeInternal
			}
			g.parked = parked{slices.Clone(request), answer}
		}
		if uint32(len(answer)) > b.space {
			return uint32(len(answer))
		}
		g.parked = parked{}
		if !b.memory.Write(b.at, answer) {
			return codeOutOfRange
		}
		return uint32(len(answer))
	}
}

func (g *guest) createSchema(ctx context.Context, request []byte) (proto.Message, uint32) {
	r := &wasmpb.CreateSchemaRequest{}
	if err := proto.Unmarshal(request, r); err != nil || g.services.schemas == nil {
		return nil, codeInternal
	}
	s, err := g.services.bounds.Create(ctx, g.services.schemas, g.services.processorID, r.GetSubject(),
		schema.Type(r.GetType()), string(r.GetBytes()))
	if err != nil {
		g.output.warn("the processor cannot create a schema", err)
		return nil, schemaCode(err)
	}
	return &wasmpb.CreateSchemaResponse{Schema: schemaMessage(s)}, 0
}

func (g *guest) getSchema(ctx context.Context, request []byte) (proto.Message, uint32) {
	r := &wasmpb.GetSchemaRequest{}
	if err := proto.Unmarshal(request, r); err != nil || g.services.schemas == nil {
		return nil, codeInternal
	}
	s, err := g.services.schemas.Get(ctx, r.GetSubject(), int(r.GetVersion()))
	if err != nil {
		return nil, schemaCode(err)
	}
	return &wasmpb.GetSchemaResponse{Schema: schemaMessage(s)}, 0
}

func schemaMessage(s schema.Schema) *commonv1.Schema {
	return &commonv1.Schema{Subject: s.Subject, Version: int32(s.Version), Id: int32(s.ID),
		Type: commonv1.Schema_Type(s.Type), Bytes: []byte(s.Text)}
}

func schemaCode(err error) uint32 {
	switch {
	case errors.Is(err, schema.ErrSubjectNotFound):
		return codeSubjectNotFound
	case errors.Is(err, schema.ErrVersionNotFound):
		return codeVersionNotFound
	case errors.Is(err, schema.ErrInvalidSchema):
		return codeInvalidSchema
	}
	return codeInternal
}
