// Package file provides a source that follows the lines of growing files, and a destination that appends one line per
// record to a file.
package file

import (
	"errors"
	"io"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

const version = "v1.0.0"

// Zstd compresses and decompresses with Zstandard.
type Zstd interface {
	// NewReader returns a reader of the decompressed content. A frame that needs more than memory bytes is an error.
	NewReader(r io.Reader, memory uint64) (io.ReadCloser, error)
	// NewWriter returns a writer that compresses to w. The caller must close it.
	NewWriter(w io.Writer) (io.WriteCloser, error)
	// NewFramer returns a function that compresses content to a frame.
	NewFramer() (func(content []byte) []byte, error)
}

var errNoZstd = errors.New("this binary has no Zstandard; the full binary, conduit, has")

// checkZstd returns an error if the setting demands Zstandard and there is none.
func checkZstd(z Zstd, setting, compression string) error {
	if compression == "zstd" && z == nil {
		return sdk.SettingError{Setting: setting, Message: errNoZstd.Error() + ", and every binary has gzip"}
	}
	return nil
}

// Connector returns the connector with its source and destination. If z is nil, files compressed with Zstandard are
// errors.
func Connector(z Zstd) sdk.Connector {
	return sdk.Connector{
		Name:    "file",
		Summary: "Reads the lines of files, or writes records to one.",
		Description: "A source that follows the lines of a file, or of the files in a directory, through growth, " +
			"rotation, truncation and compression, and a destination that appends every record to a file as one " +
			"line, and rotates it.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{zstd: z} },
		NewDestination: func() sdk.Destination { return &Destination{zstd: z} },

		// Lines are raw and have no schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
