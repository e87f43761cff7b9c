package plugins

import "embed"

// Documentation has the pages about plugins. A binary that does not use it does not contain them.
//
//go:embed README.md builtin/README.md builtin/*/README.md processor/README.md plugintest/README.md
//go:embed sdk/README.md sdk/example/README.md sdk/example/python/README.md
var Documentation embed.FS
