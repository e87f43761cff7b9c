package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/fingerprint"
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

// specify runs f and stores its specification. The process ends after that, because pipelines wait for the
// specification only.
func (e *Executables) specify(ctx context.Context, f file) {
	known := f
	known.running = false
	end := func() {}
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
		known, end = e.specified(ctx, known)
	case <-ctx.Done():
	}
	e.update(func() {
		if e.files[f.path] != nil {
			e.files[f.path] = &known
		}
	})
	if !known.again.IsZero() || known.pending && known.outdated() {
		e.wake.Notify()
	}
	end()
}

// outdated reports whether the file at f's path is another one by now.
func (f *file) outdated() bool {
	info, err := os.Stat(f.path)
	return err != nil || fingerprint.Of(info) != f.print
}

// specified returns f with its specification. If the content of f is not known, a process provides the specification.
// end ends that process.
func (e *Executables) specified(ctx context.Context, f file) (_ file, end func()) {
	known := e.answers.lookup(f.path)
	if known.same(&f) && f.recall(known) {
		return f, func() {}
	}
	content := sync.OnceValues(func() (digest, error) { return digestOf(f.path) })
	if f.spec != nil || known.mayFit(&f) {
		if now, err := content(); err == nil && e.recognize(&f, known, now) {
			return f, func() {}
		}
	}
	go func() { _, _ = content() }() // while the process starts
	timeout, cancel := context.WithTimeout(ctx, specifyTimeout(e))
	defer cancel()
	s, err := clientOf(e, &f).specify(timeout)
	now, unread := content()
	if unread != nil {
		err = unread
	}
	if ctx.Err() != nil || errors.Is(err, syscall.ETXTBSY) || f.outdated() {
		return f, s.end // still pending
	}
	f.answered(err, time.Now(), cmp.Or(e.firstAgain, firstAgain))
	f.pending, f.sum, f.spec, f.err, f.examined = false, now.sum, &s.spec, explainStart(f.path, err), time.Time{}
	if f.err == nil {
		f.err = checkName(&s.spec)
	}
	if f.err != nil {
		if f.spec = nil; err != nil && !errors.Is(err, ErrNoConnector) && !errors.Is(err, syscall.ENOEXEC) {
			f.examined = time.Now()
		}
		e.keep(&f, nil)
		return f, s.end
	}
	e.keep(&f, newAnswer(&f, now, s.version, s.answer))
	return f, s.end
}

// recognize gives f the specification of its content if that is known.
func (e *Executables) recognize(f *file, known *answer, now digest) bool {
	same := known != nil && string(known.Sum) == now.sum
	switch {
	case f.spec != nil && f.sum == now.sum:
		f.pending = false
	case !same || !f.recall(known):
		return false
	}
	if same {
		e.keep(f, newAnswer(f, now, known.Version, known.Answer))
	}
	return true
}

// recall gives f the specification that a process gave for the same content.
func (f *file) recall(known *answer) bool {
	spec, err := known.specification()
	if err != nil || checkName(&spec) != nil {
		return false
	}
	f.pending, f.sum, f.spec = false, string(known.Sum), &spec
	return true
}

// keep keeps the answer of f for the next start, nil for none.
func (e *Executables) keep(f *file, given *answer) {
	if err := e.answers.keep(f.path, given); err != nil {
		e.Log.Warn("cannot keep the specification of a plugin, which runs once more at the next start for it",
			"component", "plugins", "path", f.entry, "err", err)
	}
}

func specifyTimeout(e *Executables) time.Duration {
	return cmp.Or(e.SpecifyTimeout, defaultSpecifyTimeout)
}

// explainStart explains errors of the system in the context of starting a plugin.
func explainStart(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC) && isModule(path):
		return fmt.Errorf("%w: a WebAssembly module is a processor, which belongs into processors.path", err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: the file is not a program, or is for another platform", err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w: the interpreter of the program is missing", err)
	}
	return err
}

// isModule reports whether the file begins like a WebAssembly module.
func isModule(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, 4)
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == "\x00asm"
}

// checkName refuses names that no pipeline can refer to.
func checkName(s *sdk.Specification) error {
	if strings.ContainsAny(s.Name, "@:/ \t\r\n") || strings.ContainsAny(s.Version, " \t\r\n") || s.Version == "" ||
		s.Version == pluginname.Latest {
		return fmt.Errorf("pipelines cannot reference its name %.100q and version %.100q", s.Name, s.Version)
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
