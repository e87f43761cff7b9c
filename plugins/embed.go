package plugins

import "embed"

// Documentation has the pages about plugins. A binary that does not use it does not contain them.
//
//go:embed README.md builtin/README.md builtin/*/README.md processor/README.md plugintest/README.md
//go:embed example/README.md example/python/README.md sdk/README.md
var Documentation embed.FS

// PythonExample has a connector in Python, and the messages of the protocol. 'conduit plugins init --python' writes
// them.
//
//go:embed example/python/connector.py wire/proto/*/*/*.proto
var PythonExample embed.FS

// SDKSources has the sources of the packages from which plugins are built. 'conduit plugins init' writes a copy of
// them, without tests and this file.
//
//go:embed *.go connector/*.go peer/*.go pluginname/*.go progress/*.go record/*.go sandbox/*.go standalone/*.go
//go:embed plugintest/*.go plugintest/protocol/*.go plugintest/wait/*.go schema/*.go
//go:embed sdk/README.md sdk/*.go sdk/wasmguest/*.go subprocess/*.go template/*.go wire/*.go wire/wirepb/*/*.go
var SDKSources embed.FS
