//go:build !cgo

package needcgo

import _ "embed"

// The pattern names no file: the build prints the sentence as its error.
//
//go:embed "conduit cannot be built with CGO_ENABLED=0, because SQLite is C; set CGO_ENABLED=1 and install a C compiler such as gcc"
var _ string
