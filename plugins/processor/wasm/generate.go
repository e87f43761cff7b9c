package wasm

// The proto files are our own and describe the messages of Conduit's processor plugins.

//go:generate sh proto/generate.sh
