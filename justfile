# List what there is.
default:
    @just --list

# Run the pipelines in ./pipelines.
run *args:
    go run ./cmd/conduit run {{args}}

# Build bin/conduit.
build:
    .ci/build conduit bin/conduit \
        "-X github.com/conduit-agent/conduit/cmd/conduit/cli.commit=$(git rev-parse --short HEAD)"

# Run the tests: what needs no server and no other program.
test:
    go test ./...

# Judge the change since a commit as the gate does, and change nothing.
check base="":
    .ci/check {{base}}

# Run campaigns in full; without a name, list them. After -- come flags of their tests.
campaign *args:
    @cd agent/agenttest/campaign && go run ./run {{args}}

# Measure the built binary from outside: records that arrived, CPU time, memory.
bench *args:
    cd agent/agenttest/campaign && go run ./bench {{args}}

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
