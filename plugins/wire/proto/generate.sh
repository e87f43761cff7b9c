#!/bin/sh
# Writes plugins/wire/wirepb from the proto files next to this script: package commonv1 has the messages that connectors
# and processors share, package connectorv2 the services, package connectorv1 the older services.
set -eu
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOBIN=$tools go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$tools go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
module=github.com/conduit-agent/conduit/plugins/wire
rm -rf wirepb
PATH=$tools:$PATH protoc -I proto \
	--go_out=. --go_opt=module=$module \
	--go-grpc_out=. --go-grpc_opt=module=$module \
	$(cd proto && find . -name '*.proto' | sed 's|^\./||' | sort)
