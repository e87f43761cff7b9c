//go:build !cgo

package sqlitefile

import _ "embed"

// The pattern names no file: the build ends at once with this sentence as its error, instead of errors about missing
// symbols of SQLite, which is C.
//
//go:embed "SQLite is C and cannot be built with CGO_ENABLED=0; set CGO_ENABLED=1 and install a C compiler such as gcc"
var _ string
