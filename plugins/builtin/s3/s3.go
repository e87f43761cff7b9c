// Package s3 provides a source that reads the objects of a bucket of Amazon S3 or a compatible store, and a destination
// that writes objects.
package s3

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "s3",
		Summary: "Reads and writes objects of S3 buckets.",
		Description: "A source that reads the objects of a bucket of Amazon S3 or a compatible store, and then " +
			"new, changed and removed ones. A destination that writes records as objects of JSON lines, Parquet or " +
			"lines in any format.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Objects have no schema.
		SourceDefaults: sdk.NoSchemas(),
		// One object per record would be slow, and cost a request each.
		DestinationDefaults: map[string]string{"sdk.batch.size": "1000", "sdk.batch.delay": "1s"},
	}
}
