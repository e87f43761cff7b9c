package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// readPatience is how long it may take to read a file that a reference names.
const readPatience = 5 * time.Second

var errNoAnswer = errors.New("the file system does not answer")

// lookup finds what references in settings stand for, until ctx ends.
func (r *reads) lookup(ctx context.Context) spec.Lookup {
	return spec.Lookup{
		Env: os.LookupEnv,
		File: func(path string) (string, error) {
			return within(ctx, r, readPatience, "file "+path, func() (string, error) { return readFile(path) })
		},
		Credential: func(name string) (string, error) {
			return within(ctx, r, readPatience, "credential "+name, func() (string, error) { return credential(name) })
		},
	}
}

// reads are the reads of files under way, one for each name at most.
type reads struct{ singleflight.Group }

// within returns what read returns, which it gives up after a time or when ctx ends. A
// read that hangs, as it may on a network mount that is gone, is left behind; whoever
// wants the same waits for it, too.
func within[T any](ctx context.Context, r *reads, patience time.Duration, name string, read func() (T, error)) (value T, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case done := <-r.DoChan(name, func() (any, error) { return read() }):
		return done.Val.(T), done.Err
	case <-ctx.Done():
		return value, ctx.Err()
	case <-timer.C:
		return value, errNoAnswer
	}
}

func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	b, err := watch.ReadFile(path, info, os.OpenFile)
	return string(b), err
}

// credential reads a credential that systemd handed over (LoadCredential=).
func credential(name string) (string, error) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return "", errors.New("there are no credentials: set LoadCredential= in the systemd unit")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("cannot open the credentials directory: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return "", err
	}
	b, err := watch.ReadFile(name, info, root.OpenFile)
	return string(b), err
}
