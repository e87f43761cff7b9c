package wire

// The versions of the generators are pinned here. protoc is the version of the Debian release (3.21.12). Generating
// again changes nothing unless a proto file changed.
//go:generate sh proto/generate.sh
