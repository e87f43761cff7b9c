package reference

import (
	"context"
	"errors"
	"strings"

	"github.com/conduit-agent/conduit/spec"
)

// File declares references to files.
func File() spec.ReferenceKind {
	return spec.ReferenceKind{
		Name:        "file",
		Syntax:      "${file:/path}",
		Description: "the content of the file, without its last newline",
		Check: func(path string) error {
			if !strings.HasPrefix(path, "/") {
				return errors.New("the path must be absolute")
			}
			return nil
		},
		Allowed: func(path string, access spec.ReferenceAccess) error {
			if access.File == nil {
				return nil
			}
			return access.File(path)
		},
		Read: func(_ context.Context, path string, access spec.ReferenceAccess) (string, error) {
			return readAllowed(path, access.File)
		},
		File:  func(path string) string { return path },
		Retry: true,
	}
}
