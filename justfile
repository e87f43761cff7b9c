# List what there is.
default:
    @just --list

# Run the pipelines in ./pipelines.
run *args:
    go run ./cmd/conduit run {{args}}

# Build bin/conduit.
build:
    go build -trimpath -tags grpcnotrace -ldflags "-s -w -X main.commit=$(git rev-parse --short HEAD)" -o bin/conduit ./cmd/conduit

# Run the tests that take little time.
test:
    go test ./...

# Check everything, as CI does, and change nothing.
check:
    .ci/check

# Show on the built binary that the promises are kept, one line each.
promises:
    @.ci/promises

# Run a long campaign of faults; without a name, list them.
campaign *args:
    @.ci/campaign {{args}}

# Measure the built binary from outside: records that arrived, CPU time, memory.
bench *args:
    go run ./agent/agenttest/bench {{args}}

# Run the Go benchmarks.
benchmarks pattern=".":
    go test -run '^$' -bench '{{pattern}}' -benchmem ./...

# Build packages for all architectures, a static binary, bills of materials and checksums in dist.
release:
    .ci/release

# Write the software bill of materials of bin/conduit as CycloneDX: the modules compiled in.
sbom: build
    .ci/sbom bin/conduit >bin/conduit.cdx.json

# Format the code.
fmt:
    gofmt -w .

# Regenerate code.
generate:
    go generate ./...
