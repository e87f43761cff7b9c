package examples

import "embed"

//go:embed *.yaml
var files embed.FS
