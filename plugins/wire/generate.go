package wire

// The generators are pinned here, protoc is the one of the Debian release (3.21.12):
// generating again changes nothing unless a proto file changed.
//go:generate sh proto/generate.sh
