package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// specifyPending lets work specify the pending files. It returns the time until the next attempt for files that may
// still be being written or were interrupted, 0 if there are none.
func (e *Executables) specifyPending(ctx context.Context, work *sync.WaitGroup) (again time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for path, f := range e.files {
		switch due := f.due(now); {
		case due < 0:
		case due > 0:
			again = min(due, cmp.Or(again, due))
		default:
			running := *f
			running.running = true
			e.files[path] = &running
			work.Go(func() { e.specify(ctx, running) })
		}
	}
	return again
}

// specify runs f and stores its specification.
func (e *Executables) specify(ctx context.Context, f file) {
	known := f
	known.running = false
	select {
	case e.slots <- struct{}{}:
		known = e.specified(ctx, known)
		<-e.slots
	case <-ctx.Done():
	}
	e.update(func() {
		if e.files[f.path] != nil {
			e.files[f.path] = &known
		}
	})
	if !known.again.IsZero() {
		e.wake.Notify()
	}
}

func (e *Executables) specified(ctx context.Context, f file) file {
	digest, err := sum(f.path)
	if err == nil && f.spec != nil && digest == f.sum {
		f.pending = false
		return f
	}
	var spec sdk.Specification
	if err == nil {
		timeout, cancel := context.WithTimeout(ctx, specifyTimeout(e))
		defer cancel()
		spec, err = clientOf(e, &f).Specify(timeout)
	}
	if ctx.Err() != nil || errors.Is(err, syscall.ETXTBSY) {
		return f // still pending
	}
	f.answered(err, time.Now(), cmp.Or(e.firstAgain, firstAgain))
	f.pending, f.sum, f.spec, f.err = false, digest, &spec, explainStart(err)
	if f.err == nil {
		f.err = checkName(&spec)
	}
	if f.err != nil {
		f.spec = nil
	}
	return f
}

func specifyTimeout(e *Executables) time.Duration {
	return cmp.Or(e.SpecifyTimeout, defaultSpecifyTimeout)
}

// explainStart explains errors of the system in the context of starting a plugin.
func explainStart(err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: it is no program, or one for another kind of machine", err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w: its interpreter is missing", err)
	}
	return err
}

// checkName refuses names that no pipeline can refer to.
func checkName(s *sdk.Specification) error {
	if strings.ContainsAny(s.Name, "@:/ \t\r\n") || strings.ContainsAny(s.Version, " \t\r\n") || s.Version == "" ||
		s.Version == pluginname.Latest {
		return fmt.Errorf("it calls itself %.100q, version %.100q, which pipelines cannot refer to", s.Name, s.Version)
	}
	return nil
}

// sides returns the source and destination parameters of a plugin. A plugin without parameters for a side has no such
// side if its SDK adds its own parameters to every existing side. For other SDKs this is unknown.
func sides(s *sdk.Specification) (source, destination sdk.Parameters) {
	if (plugins.Installed{Specification: *s, Kind: pluginname.Standalone}).Complete() {
		return s.Source, s.Destination
	}
	source, destination = sdk.Parameters{}, sdk.Parameters{}
	if s.Source != nil {
		source = s.Source
	}
	if s.Destination != nil {
		destination = s.Destination
	}
	return source, destination
}

// clientOf returns a client that starts f.
func clientOf(e *Executables, f *file) *Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &Client{Path: f.path, Env: e.Env, Log: e.Log, LogLevel: e.LogLevel, Sandbox: e.Sandbox,
		TempDir: e.TempDir, MaxReceive: e.MaxMessage, MaxMessage: e.MaxSend}
	if e.Schemas != nil {
		c.Schemas = &SchemaServer{Registry: e.Schemas, Bounds: e.Bounds}
	}
	if f.spec != nil {
		c.Name = string(pluginname.Standalone) + ":" + f.spec.Name
	}
	return c
}
