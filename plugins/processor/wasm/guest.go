package wasm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb"
	"github.com/conduit-agent/conduit/spec/texts"
)

// guest is one running module. It fetches a command, answers it, and fetches the next.
type guest struct {
	ctx      context.Context // canceled when the guest must end; carries the guest
	kill     context.CancelFunc
	commands chan []byte // closed: no more commands
	replies  chan reply
	done     chan struct{} // closed when the guest has ended
	exit     error         // why it ended; set before done is closed
	services services
	output   *output

	// owned by the guest's goroutine
	command  []byte // fetched, but too long for the buffer
	awaiting bool   // a fetched command has no answer yet
	parked   parked // the answer of a service that was too long for the buffer

	ended bool // owned by the caller: commands is closed
}

// reply is the answer to a command, or the reason why it was not accepted.
type reply struct {
	content []byte
	err     error
}

type guestKey struct{}

func guestFrom(ctx context.Context) *guest {
	g, _ := ctx.Value(guestKey{}).(*guest)
	return g
}

func (g *guest) run(module api.Module) {
	_, err := module.ExportedFunction("_start").Call(g.ctx)
	var exit *sys.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 0:
		err = errors.New("it exited")
	case errors.As(err, &exit) && exit.ExitCode() == sys.ExitCodeContextCanceled:
		err = errors.New("it was stopped")
	case errors.As(err, &exit):
		err = fmt.Errorf("it exited with code %d", exit.ExitCode())
	case err == nil:
		err = errors.New("it returned")
	}
	if last := g.output.last(); last != "" {
		err = fmt.Errorf("%w: %s", err, last)
	}
	g.exit = err
	_ = module.Close(context.Background())
	g.kill()
	close(g.done)
}

// errDied is the error of calls to a guest that has ended.
var errDied = errors.New("the processor ended")

// killGrace is the time that a killed guest has to end.
const killGrace = 5 * time.Second

// call makes the guest execute one command and returns the answer. If ctx ends first, the guest is killed and takes no
// more commands.
func (g *guest) call(ctx context.Context, command []byte) ([]byte, error) {
	if ctx.Err() == nil {
		select {
		case g.commands <- command:
		case <-g.done:
		case <-ctx.Done():
		}
	}
	select {
	case r := <-g.replies:
		return r.content, r.err
	case <-g.done:
		return nil, fmt.Errorf("%w: %w", errDied, g.exit)
	case <-ctx.Done():
		g.kill()
		select {
		case <-g.done:
		case <-time.After(killGrace):
		}
		return nil, ctx.Err()
	}
}

// ask makes the guest execute any command except process.
func (g *guest) ask(ctx context.Context, request *wasmpb.CommandRequest) (*wasmpb.CommandResponse, error) {
	command, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the command: %w", err)
	}
	reply, err := g.call(ctx, command)
	if err == nil && len(reply) > maxAnswer {
		err = tooLarge(len(reply), maxAnswer)
	}
	if err != nil {
		return nil, err
	}
	response := &wasmpb.CommandResponse{}
	if err := proto.Unmarshal(reply, response); err != nil {
		return nil, fmt.Errorf("cannot read the answer of the processor: %w", err)
	}
	if e := response.GetError(); e != nil {
		return nil, &guestError{code: e.GetCode(), message: texts.Truncate(e.GetMessage(), maxMessage)}
	}
	return response, nil
}

// guestError is an error that the processor returned as its answer.
type guestError struct {
	code    uint32
	message string
}

func (e *guestError) Error() string { return e.message }

// stop ends the guest after its current command, or when ctx ends.
func (g *guest) stop(ctx context.Context) {
	if !g.ended {
		g.ended = true
		close(g.commands)
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		g.kill()
	}
	g.kill()
	select {
	case <-g.done:
	case <-time.After(killGrace):
	}
}

// Field numbers in CommandRequest and CommandResponse.
const (
	requestProcess  = 4
	responseError   = 1
	responseProcess = 5
)

// processCommand returns the command to process the records, which must already be encoded as fields of
// Process.Request.
func processCommand(records []byte) []byte {
	b := make([]byte, 0, len(records)+16)
	b = protowire.AppendTag(b, requestProcess, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(records)))
	return append(b, records...)
}
