// Package wasm tests processors that are WebAssembly modules, built by the Go compiler.
package wasm
