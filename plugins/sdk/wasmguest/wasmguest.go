// Package wasmguest turns a processor into a WebAssembly module that an agent, or Conduit, runs from its directory of
// processors. The main function of a module is one line:
//
//	func main() { wasmguest.Serve(processor) }
//
// Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -o name.wasm .
package wasmguest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// server executes the commands of a host with one instance of a processor.
type server struct {
	plugin    sdk.ProcessorPlugin
	processor sdk.Processor
	ctx       context.Context // carries the Env
}

func newServer(plugin sdk.ProcessorPlugin, id, level string, out io.Writer, schemas schema.Registry) *server {
	env := &sdk.Env{ProcessorID: id, PluginName: plugin.Name, Logger: newLogger(out, level), Schemas: schemas}
	return &server{plugin: plugin, processor: plugin.New(), ctx: sdk.WithEnv(context.Background(), env)}
}

// newLogger returns a logger that writes lines in the format that hosts parse.
func newLogger(out io.Writer, level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		least = slog.LevelInfo
		if level == "trace" {
			least = slog.LevelDebug - 4
		}
	}
	return slog.New(slog.NewJSONHandler(out,
		&slog.HandlerOptions{Level: least, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			switch {
			case len(groups) > 0:
			case a.Key == slog.LevelKey:
				return slog.String("level", strings.ToLower(a.Value.String()))
			case a.Key == slog.MessageKey:
				a.Key = "message"
			}
			return a
		}}))
}

// execute returns the encoded response to an encoded command.
func (s *server) execute(b []byte) []byte {
	answer, err := s.answer(b)
	if err != nil {
		return appendError(nil, commandError, err)
	}
	return answer
}

// answer executes a command. It returns a panic of the processor as an error.
func (s *server) answer(b []byte) (answer []byte, err error) {
	defer sdk.Recover(&err)
	c, err := parseCommand(b)
	if err != nil {
		return nil, err
	}
	switch c.kind {
	case commandSpecify:
		return s.specification(), nil
	case commandConfigure:
		params := s.processor.Parameters()
		settings := params.ApplyDefaults(c.settings)
		if errs := params.Check(settings); len(errs) > 0 {
			return nil, fmt.Errorf("config invalid: %w", joined(errs))
		}
		err = s.processor.Configure(s.ctx, settings)
	case commandOpen:
		err = s.processor.Open(s.ctx)
	case commandProcess:
		return s.process(c.records)
	case commandTeardown:
		err = s.processor.Teardown(s.ctx)
	}
	return appendEmpty(nil, c.kind+1), err
}

func joined(errs []sdk.SettingError) error {
	list := make([]error, len(errs))
	for i, e := range errs {
		list[i] = e
	}
	return errors.Join(list...)
}

func (s *server) process(records []record.Record) ([]byte, error) {
	b := sdk.NewProcessBatch(nil, records, nil)
	if err := s.processor.Process(s.ctx, b); err != nil {
		return nil, err
	}
	if len(b.Emitted()) > 0 {
		return nil, errHolds
	}
	return appendProcessed(nil, records, b.Fates())
}

var errHolds = errors.New("a processor in a WebAssembly module cannot hold records")
