package spec

import "embed"

// Documentation has the pages about this directory. A binary that does not use it does not contain them.
//
//go:embed README.md
var Documentation embed.FS

// SDKSources has the sources of the packages below this directory from which plugins are built.
//
//go:embed fingerprint/*.go notify/*.go texts/*.go
var SDKSources embed.FS
