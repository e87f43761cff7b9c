package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conduit-agent/conduit/spec"
)

// writeFile replaces the declaration in the pipeline file of the owner by p, and makes the agent read the file. The
// file is replaced atomically, so that no reader sees a partial write.
func (a *Agent) writeFile(ctx context.Context, owner spec.Owner, p *spec.Pipeline) error {
	path := filepath.Join(a.options.Config.Pipelines.Path, filepath.FromSlash(owner.Path))
	if err := replaceInFile(path, p); err != nil {
		return err
	}
	return a.Files.Reload(ctx, false)
}

func replaceInFile(path string, p *spec.Pipeline) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return withoutPath(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("it is a symbolic link, for example of a ConfigMap: change its target")
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return withoutPath(err)
	}
	after, err := spec.Splice(before, p)
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		return nil
	}
	return replaceFile(path, info, before, after)
}

// replaceFile replaces a file that has the content before by one with the same owner and mode. The agent does not read
// files with the name of the draft.
func replaceFile(path string, info fs.FileInfo, before, after []byte) (err error) {
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("its directory cannot be written: %w", withoutPath(err))
	}
	defer func() {
		if err != nil {
			_ = os.Remove(draft.Name())
		}
	}()
	_, err = draft.Write(after)
	if err == nil {
		err = keepOwner(draft, info)
	}
	if err == nil {
		err = errors.Join(draft.Chmod(info.Mode().Perm()), draft.Sync())
	}
	if err = errors.Join(err, draft.Close()); err != nil {
		return withoutPath(err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
		return errors.New("it has just been changed by someone else; read it again, and retry")
	}
	if err = os.Rename(draft.Name(), path); err != nil {
		return withoutPath(err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil //nolint:nilerr // it is written, but a power cut may lose it
	}
	_ = dir.Sync()
	return dir.Close()
}

// withoutPath returns the cause of an error that names the path, which the caller adds itself.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
