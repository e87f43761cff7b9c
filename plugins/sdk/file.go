package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadFile returns the content of a regular file of at most limit bytes. It refuses other files, because settings may
// name any file: a device such as /dev/zero has no end, and opening a FIFO may block for ever.
func ReadFile(path string, limit int64) ([]byte, error) {
	if err := readable(os.Stat(path)); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f, limit)
}

// ReadSettingFile is ReadFile for a file named by the setting, if the setting may name it. It checks the opened file,
// because a link may have replaced the file since CheckPath.
func ReadSettingFile(ctx context.Context, setting, path string, limit int64) ([]byte, error) {
	err := CheckPath(ctx, setting, path)
	if err == nil {
		err = readable(os.Stat(path))
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := CheckOpen(ctx, setting, f); err != nil {
		return nil, err
	}
	return readOpen(f, limit)
}

func readOpen(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err := readable(info, err); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(int(min(info.Size(), limit)) + bytes.MinRead) // the current size, so that reading allocates once
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", f.Name(), limit)
	}
	return b.Bytes(), nil
}

func readable(info os.FileInfo, err error) error {
	if err == nil && !info.Mode().IsRegular() {
		return errors.New(info.Name() + " is not a regular file")
	}
	return err
}
