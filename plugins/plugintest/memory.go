package plugintest

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Memory is the memory of a host for the buffers of connectors, and counts its use.
type Memory struct {
	Bytes int64

	used, most atomic.Int64
}

// Context returns ctx with an environment whose buffers use m.
func (m *Memory) Context(ctx context.Context) context.Context {
	return sdk.WithEnv(ctx, &sdk.Env{ConnectorID: "p:c", Logger: slog.New(slog.DiscardHandler),
		Buffer: func() sdk.Buffer { return &buffer{memory: m} }})
}

// Used returns how many bytes are in use.
func (m *Memory) Used() int64 { return m.used.Load() }

// Most returns the maximum number of bytes in use.
func (m *Memory) Most() int64 { return m.most.Load() }

// buffer is one user of a Memory.
type buffer struct {
	memory *Memory
	held   atomic.Int64
}

// Take implements sdk.Buffer.
func (b *buffer) Take(n int) bool {
	if n > b.Room() {
		return false
	}
	b.Add(n)
	return true
}

// Add implements sdk.Buffer.
func (b *buffer) Add(n int) {
	b.held.Add(int64(n))
	used := b.memory.used.Add(int64(n))
	for most := b.memory.most.Load(); used > most && !b.memory.most.CompareAndSwap(most, used); {
		most = b.memory.most.Load()
	}
}

// Room implements sdk.Buffer.
func (b *buffer) Room() int { return int(max(0, b.memory.Bytes-b.memory.used.Load())) }

// Close implements sdk.Buffer.
func (b *buffer) Close() { b.memory.used.Add(-b.held.Swap(0)) }
