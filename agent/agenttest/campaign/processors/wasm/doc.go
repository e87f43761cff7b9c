// Package wasm tries processors that are WebAssembly modules, which the Go compiler builds.
package wasm
