//go:build !minimal

// Package conduit holds the pages of the documentation, where they are written, for the site that
// the agent serves.
package conduit

import "embed"

// Pages are the Markdown files, by their paths in the repository.
//
//go:embed README.md SECURITY.md CHANGELOG.md agent/README.md agent/RELIABILITY.md agent/engine/BENCHMARKS.md
//go:embed api/README.md spec/README.md reconcile/README.md schemas/README.md
//go:embed plugins/README.md plugins/builtin/README.md plugins/builtin/*/README.md plugins/processor/README.md
//go:embed plugins/sdk/README.md plugins/sdk/example/README.md plugins/sdk/example/python/README.md plugins/plugintest/README.md
//go:embed cmd/conduit/systemd/README.md cmd/conduit/docs/OPERATING.md
var Pages embed.FS
