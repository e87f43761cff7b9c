package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// module is one version of the content of a file.
type module struct {
	modules *Modules
	path    string
	stamp   stamp
	sum     string // SHA-256 in hexadecimal
	spec    *wasmpb.Specify_Response
	users   users

	mu       sync.Mutex
	engine   *engine               // guarded by mu
	compiled wazero.CompiledModule // guarded by mu: nil until first use
}

func (m *module) sameName(o *module) bool {
	return m.spec.GetName() == o.spec.GetName() && m.spec.GetVersion() == o.spec.GetVersion()
}

// plugin returns the processor plugin of the module.
func (m *module) plugin(modules *Modules) sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name: m.spec.GetName(), Summary: m.spec.GetSummary(), Description: m.spec.GetDescription(),
		Version: m.spec.GetVersion(), Author: m.spec.GetAuthor(),
		New: func() sdk.Processor { return &processor{module: m, policy: modules.Egress} },
	}
}

// ready compiles the module unless it is already compiled.
func (m *module) ready(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.compiled != nil {
		return nil
	}
	content, err := m.content()
	if err == nil {
		err = m.compile(ctx, content)
	}
	if err != nil {
		return fmt.Errorf("cannot load the processor from %s: %w", m.path, err)
	}
	return nil
}

// compile compiles the content. The caller holds mu, unless m is not shared yet.
func (m *module) compile(ctx context.Context, content []byte) error {
	start := time.Now()
	e, compiled, err := m.compileOnce(ctx, content)
	if err != nil && m.modules.cache.dropCode(m.sum) {
		m.modules.Log.Info("compiling a processor again", "plugin_path", m.path, "err", err)
		e, compiled, err = m.compileOnce(ctx, content)
	}
	if err != nil {
		return err
	}
	m.modules.Log.Debug("compiled processor", "plugin_path", m.path, "took", time.Since(start))
	m.engine, m.compiled = e, compiled
	m.users.mu.Lock()
	m.users.close = func() error { return e.close(context.Background()) }
	m.users.mu.Unlock()
	return nil
}

// compileOnce compiles the content with an engine of its own, unless the code is cached.
func (m *module) compileOnce(ctx context.Context, content []byte) (*engine, wazero.CompiledModule, error) {
	e, err := newEngine(context.WithoutCancel(ctx), m.modules.cache.codeDir(m.sum), m.modules.Memory, m.modules.Log)
	if err != nil {
		return nil, nil, err
	}
	compiled, err := e.compile(ctx, content)
	if err != nil {
		return nil, nil, errors.Join(err, e.close(context.WithoutCancel(ctx)))
	}
	return e, compiled, nil
}

// start starts a guest of the module, which must be ready.
func (m *module) start(ctx context.Context, c guestConfig) (*guest, error) {
	m.mu.Lock()
	e, compiled := m.engine, m.compiled
	m.mu.Unlock()
	return e.start(ctx, compiled, c)
}

// content reads the file, which must be unchanged since the module was specified.
func (m *module) content() ([]byte, error) {
	content, err := readModule(m.path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(m.path); err != nil || stampOf(info) != m.stamp {
		return nil, errors.New("the file changed a moment ago")
	}
	return content, nil
}

// specify gets the specification of the processor from the module.
func (m *module) specify(ctx context.Context) (*wasmpb.Specify_Response, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(m.modules.SpecifyTimeout, defaultSpecifyTimeout))
	defer cancel()
	log := m.modules.Log
	g, err := m.start(ctx, guestConfig{processorID: "init-processor", logLevel: logLevel(log), output: newOutput(log)})
	if err != nil {
		return nil, err
	}
	defer g.stop(ctx)
	answer,
		err := g.ask(ctx, &wasmpb.CommandRequest{
		Request: &wasmpb.CommandRequest_Specify{Specify: &wasmpb.Specify_Request{}}})
	if err != nil {
		return nil, err
	}
	spec := answer.GetSpecify()
	if spec.GetName() == "" {
		return nil, errors.New("it has no name")
	}
	if n := len(spec.GetParameters()); n > maxParameters {
		return nil, fmt.Errorf("it has %d parameters, more than %d", n, maxParameters)
	}
	if _, err := g.ask(ctx, &wasmpb.CommandRequest{
		Request: &wasmpb.CommandRequest_Teardown{Teardown: &wasmpb.Teardown_Request{}}}); err != nil {
		m.modules.Log.Debug("a processor failed to exit after it returned its specification", "plugin_path", m.path,
			"err",
			err)
	}
	return spec, nil
}
