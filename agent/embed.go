package agent

import "embed"

// Documentation has the pages about this directory. A binary that does not use it does not contain them.
//
//go:embed RELIABILITY.md engine/BENCHMARKS.md
var Documentation embed.FS
