package sdk

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadFile returns the content of a regular file of at most limit bytes. Settings name files:
// a device such as /dev/zero has no end, and a FIFO may never have a beginning.
func ReadFile(path string, limit int64) ([]byte, error) {
	if err := readable(os.Stat(path)); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := readable(f.Stat()); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, err
}

func readable(info os.FileInfo, err error) error {
	if err == nil && !info.Mode().IsRegular() {
		return errors.New(info.Name() + " is not a regular file")
	}
	return err
}
