package schemas

import "embed"

// Documentation has the pages about this directory. A binary that does not use it does not contain them.
//
//go:embed README.md
var Documentation embed.FS
