//go:build minimal

package examples

import "embed"

// files is empty: small hosts have no room for examples.
var files embed.FS
