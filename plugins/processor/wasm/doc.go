// Package wasm runs processors that are WebAssembly modules in a directory, by the
// contract of Conduit's standalone processors: modules made for Conduit run unchanged.
//
// A module is a WASI command. It fetches commands from the host, which are protobuf
// messages (see the folder proto), and answers them, one at a time. Each worker of a
// processor is an instance of its own, with memory of its own.
package wasm
