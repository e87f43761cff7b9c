package reference

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// readTimeout is the maximum time to read the value of a reference.
const readTimeout = 5 * time.Second

var errTimeout = errors.New("the file system does not respond")

// reads are the reads of files in progress, at most one for each name.
type reads struct{ singleflight.Group }

// within returns the result of read, or gives up after timeout or when ctx ends. A read that hangs, for example on a
// network mount that is gone, is abandoned; later callers for the same name wait for it instead of starting another
// one.
func within[T any](
	ctx context.Context, r *reads, timeout time.Duration, name string, read func() (T, error),
) (value T, err error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case done := <-r.DoChan(name, func() (any, error) { return read() }):
		return done.Val.(T), done.Err
	case <-ctx.Done():
		return value, ctx.Err()
	case <-timer.C:
		return value, errTimeout
	}
}

// ReadFile returns the content of a regular file of bounded size.
func ReadFile(path string) (string, error) { return readAllowed(path, nil) }

// readAllowed is ReadFile for files for which allow returns no error. It checks the opened file, since a link may have
// changed.
func readAllowed(path string, allow func(path string) error) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	b, err := watch.ReadFile(path, info, func(name string, flag int, perm fs.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag, perm)
		if err != nil || allow == nil {
			return f, err
		}
		real, err := fingerprint.PathOf(f)
		if err == nil {
			err = allow(real)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	})
	return string(b), err
}
