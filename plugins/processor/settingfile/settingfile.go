// Package settingfile reads files that settings of processors name, and reads them again when they change.
package settingfile

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// checkInterval is the shortest time between two checks of a file. It is checked only while records arrive.
const checkInterval = time.Second

// A File is the content of a file. It is not safe for concurrent use.
type File[T any] struct {
	content T
	path    string
	what    string
	read    func(ctx context.Context) (T, error)
	seen    os.FileInfo // the last file that was read, successfully or not
	next    time.Time   // time of the next check
}

// Open reads the file at path with read. what names the file in messages, such as "the table".
func Open[T any](
	ctx context.Context, path, what string, read func(ctx context.Context) (T, error),
) (f *File[T], err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", what, err)
	}
	f = &File[T]{path: path, what: what, read: read, seen: info, next: sdk.Now(ctx).Add(checkInterval)}
	f.content, err = read(ctx)
	return f, err
}

// Content returns the content of the file, which it reads again if the file changed. If that fails, it logs a warning
// and returns the previous content.
func (f *File[T]) Content(ctx context.Context) T {
	now := sdk.Now(ctx)
	if now.Before(f.next) {
		return f.content
	}
	f.next = now.Add(checkInterval)
	info, err := os.Stat(f.path)
	if err == nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) &&
		info.Size() == f.seen.Size() {
		return f.content
	}
	content := f.content
	if err == nil {
		f.seen = info
		content, err = f.read(ctx)
	}
	if err != nil {
		sdk.Logger(ctx).Warn("cannot reload "+f.what+"; using the previous one", "component", "processor", "err", err)
		return f.content
	}
	f.content = content
	return content
}
