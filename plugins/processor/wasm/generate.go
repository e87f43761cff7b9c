package wasm

// The proto files are written for this project and describe the messages of Conduit's processor plugins.

//go:generate sh proto/generate.sh
