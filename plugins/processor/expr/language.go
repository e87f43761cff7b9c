package expr

import _ "embed"

// language documents the expression language. A test compares its functions with the available functions.
//
//go:embed language.md
var language string
