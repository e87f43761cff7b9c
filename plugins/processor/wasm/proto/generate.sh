#!/bin/sh
# Writes wasmpb from the proto files next to this script.
set -eu
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOBIN=$tools go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
rm -rf wasmpb
PATH=$tools:$PATH protoc -I proto -I ../../wire/proto \
	--go_out=. --go_opt=module=github.com/conduit-agent/conduit/plugins/processor/wasm \
	$(cd proto && find . -name '*.proto' | sed 's|^\./||' | sort)
