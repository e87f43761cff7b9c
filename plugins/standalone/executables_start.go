package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
)

// substituteWait is the time to wait for a plugin that may match better than the known one.
const substituteWait = 2 * time.Second

// Await implements Discovery.
func (e *Executables) Await(ctx context.Context, ref pluginname.Name, substitute bool) {
	e.init()
	e.scan()
	for start := time.Now(); ; {
		changes, done, some := awaited(e, ref)
		if done {
			return
		}
		e.wake.Notify()
		limit := specifyTimeout(e)
		if substitute || some {
			limit = cmp.Or(e.substituteWait, substituteWait)
		}
		timer := time.NewTimer(time.Until(start.Add(limit)))
		select {
		case <-changes:
			timer.Stop()
		case <-timer.C:
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// awaited reports whether no pending file can change the meaning of ref, and whether ref has a meaning already.
func awaited(e *Executables, ref pluginname.Name) (changes <-chan struct{}, done, some bool) {
	path := ""
	if ref.IsPath() {
		path, _ = e.resolve(ref.Name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.files[path]; f != nil {
		return e.changes, !f.pending, false
	}
	pending := false
	for _, f := range e.files {
		pending = pending || f.pending
	}
	for name, f := range e.plugins {
		if ref.Matches(name) && !f.pending {
			some = true
		}
	}
	return e.changes, !pending || some && ref.Version != pluginname.Latest, some
}

// Resolve implements Discovery.
func (e *Executables) Resolve(path string) (pluginname.Name, error) {
	e.init()
	resolved, err := e.resolve(path)
	if err != nil {
		return pluginname.Name{}, fmt.Errorf("cannot use %s as a plugin: %w", path, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, f := range e.plugins {
		if f.path == resolved {
			return name, nil
		}
	}
	reason := "it is not directly in " + e.Dir
	if f := e.files[resolved]; f != nil {
		if reason = e.problems[f.entry]; reason == "" {
			reason = "the agent has not queried its specification yet"
		}
	}
	return pluginname.Name{}, fmt.Errorf("cannot use %s as a plugin: %s", path, reason)
}

// resolve returns the file at path, which must be in the directory. Relative paths start at the working directory or,
// if there is no such file, in the directory.
func (e *Executables) resolve(path string) (string, error) {
	root, err := realDir(e.Dir)
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(abs); err != nil && !filepath.IsAbs(path) {
		abs = filepath.Join(root, path)
	}
	target, err := inside(root, abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", errors.New("there is no such file in " + e.Dir)
	case err != nil:
		return "", errors.New("plugins must be in " + e.Dir)
	}
	return target, nil
}

// Source starts a process for a source.
func (e *Executables) Source(ctx context.Context, use plugins.Use) (connector.Source, error) {
	client, f, err := e.client(use.Plugin)
	if err != nil {
		return nil, fmt.Errorf("cannot start source %q: %w", use.ConnectorID, err)
	}
	s, err := client.Source(ctx, use.ConnectorID)
	if err != nil {
		return nil, fmt.Errorf("cannot start source %q: %w", use.ConnectorID, err)
	}
	return &runningSource{s, e.begin(use, f, s.PID())}, nil
}

// Destination starts a process for a destination.
func (e *Executables) Destination(ctx context.Context, use plugins.Use) (connector.Destination, error) {
	client, f, err := e.client(use.Plugin)
	if err != nil {
		return nil, fmt.Errorf("cannot start destination %q: %w", use.ConnectorID, err)
	}
	d, err := client.Destination(ctx, use.ConnectorID)
	if err != nil {
		return nil, fmt.Errorf("cannot start destination %q: %w", use.ConnectorID, err)
	}
	return &runningDestination{d, e.begin(use, f, d.PID())}, nil
}

// client returns a client for the plugin, and its file, provided that the file is unchanged since it was specified.
func (e *Executables) client(plugin pluginname.Name) (*Client, *file, error) {
	e.init()
	e.mu.Lock()
	f := e.plugins[plugin]
	e.mu.Unlock()
	if f == nil {
		return nil, nil, fmt.Errorf("cannot find plugin %q", plugin)
	}
	root, err := realDir(e.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot find plugin %q: %w", plugin, err)
	}
	now := e.inspect(root, filepath.Base(f.entry))
	switch {
	case now == nil:
		return nil, nil, fmt.Errorf("cannot find plugin %q: %s was removed", plugin, f.entry)
	case now.err != nil:
		return nil, nil, fmt.Errorf("cannot use plugin %q: %s: %w", plugin, f.entry, now.err)
	case f.pending || now.path != f.path || now.print != f.print:
		return nil, nil, fmt.Errorf("cannot use plugin %q: %s has changed, and the agent has not queried the "+
			"new specification yet", plugin,
			f.entry)
	}
	return clientOf(e, f), f, nil
}
