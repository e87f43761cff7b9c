// Package spool provides a destination that keeps records in a log on disk, and a source that reads them.
package spool

import (
	"context"
	"os"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "spool",
		Summary: "Keeps records in a log on disk, and reads them from there.",
		Description: "A destination that appends records to a log on disk and syncs it before it counts them as " +
			"written, and a source that reads such a log. Several sources may read one log, each at its own pace; " +
			"records that all sources have acknowledged are removed.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Records are returned unchanged.
		SourceDefaults: sdk.NoSchemas(),
	}
}

// share opens the spool in a directory, if the path is allowed.
func share(ctx context.Context, path string) (l *spoollog.Log, release func() error, err error) {
	return spoollog.OpenShared(path, func(dir *os.File) error { return sdk.CheckOpen(ctx, "path", dir) },
		sdk.Logger(ctx))
}
