//go:build !minimal

package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tetratelabs/wazero"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb/processorv1"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// module is one content of a file.
type module struct {
	modules *Modules
	path    string
	stamp   stamp
	sum     string // SHA-256 in hexadecimal
	spec    *processorv1.Specify_Response
	users   users

	mu       sync.Mutex
	compiled wazero.CompiledModule // guarded by mu: nil until it is needed
}

func (m *module) sameName(o *module) bool {
	return m.spec.GetName() == o.spec.GetName() && m.spec.GetVersion() == o.spec.GetVersion()
}

// plugin describes the processor.
func (m *module) plugin(modules *Modules) sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name: m.spec.GetName(), Summary: m.spec.GetSummary(), Description: m.spec.GetDescription(),
		Version: m.spec.GetVersion(), Author: m.spec.GetAuthor(),
		New: func() sdk.Processor { return &processor{module: m, policy: modules.Egress} },
	}
}

// compile compiles the content.
func (m *module) compile(ctx context.Context, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.compiled != nil {
		return nil
	}
	e, err := m.modules.theEngine()
	if err != nil {
		return err
	}
	if m.compiled, err = e.compile(ctx, content); err != nil {
		return err
	}
	compiled := m.compiled
	m.users.mu.Lock()
	m.users.close = func() { _ = compiled.Close(context.Background()) }
	m.users.mu.Unlock()
	return nil
}

// start starts a guest, compiling the module if that is not done.
func (m *module) start(ctx context.Context, c guestConfig) (*guest, error) {
	m.mu.Lock()
	ready := m.compiled != nil
	m.mu.Unlock()
	if !ready {
		content, err := m.content()
		if err == nil {
			err = m.compile(ctx, content)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot load the processor from %s: %w", m.path, err)
		}
	}
	e, err := m.modules.theEngine()
	if err != nil {
		return nil, err
	}
	return e.start(m.compiled, c)
}

// content reads the file, which must be what it was when it was described.
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

// specify asks the module what it is.
func (m *module) specify(ctx context.Context) (*processorv1.Specify_Response, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(m.modules.SpecifyTimeout, defaultSpecifyTimeout))
	defer cancel()
	log := m.modules.Log
	g, err := m.start(ctx, guestConfig{processorID: "init-processor", logLevel: logLevel(log), output: newOutput(log)})
	if err != nil {
		return nil, err
	}
	defer g.stop(ctx)
	answer, err := g.ask(ctx, &processorv1.CommandRequest{Request: &processorv1.CommandRequest_Specify{Specify: &processorv1.Specify_Request{}}})
	if err != nil {
		return nil, err
	}
	spec := answer.GetSpecify()
	if spec.GetName() == "" {
		return nil, errors.New("it has no name")
	}
	if _, err := g.ask(ctx, &processorv1.CommandRequest{Request: &processorv1.CommandRequest_Teardown{Teardown: &processorv1.Teardown_Request{}}}); err != nil {
		m.modules.Log.Debug("a processor that was only asked what it is did not end well", "plugin_path", m.path, "err", err)
	}
	return spec, nil
}

// specificationFile is where the description of a module with this sum is kept.
func (m *Modules) specificationFile(sum string) string {
	return filepath.Join(m.CacheDir, "specifications", sum)
}

func (m *Modules) keptSpecification(sum string) *processorv1.Specify_Response {
	if m.CacheDir == "" {
		return nil
	}
	b, err := os.ReadFile(m.specificationFile(sum))
	spec := &processorv1.Specify_Response{}
	if err != nil || proto.Unmarshal(b, spec) != nil || spec.GetName() == "" {
		return nil
	}
	return spec
}

// keepSpecification keeps a description. That it cannot costs time at the next start.
func (m *Modules) keepSpecification(sum string, spec *processorv1.Specify_Response) {
	if m.CacheDir == "" {
		return
	}
	path := m.specificationFile(sum)
	b, err := proto.Marshal(spec)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		m.Log.Warn("cannot keep what a processor says of itself", "err", err)
	}
}
