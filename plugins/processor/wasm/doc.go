// Package wasm runs processors that are WebAssembly modules in a directory. It implements the contract of Conduit's
// standalone processors, so modules made for Conduit run unchanged.
//
// A module is a WASI command. It fetches commands from the host, which are protobuf messages (see the folder proto),
// and answers them, one at a time. Each worker of a processor is a separate instance with its own memory.
package wasm
