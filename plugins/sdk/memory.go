package sdk

import (
	"context"
	"math"
)

// Memory is the memory that the host has for the records of a source.
type Memory interface {
	// Batch returns the maximum number of bytes that the current Read should return. A single record may be larger.
	Batch() int
	// Reserve waits until the current Read may hold n bytes in all. It returns an error if ctx ends first.
	Reserve(ctx context.Context, n int) error
}

type memoryKey struct{}

// WithMemory returns a context for Reads of a source with limited memory. m is nil if the memory is not limited.
func WithMemory(ctx context.Context, m Memory) context.Context {
	return context.WithValue(ctx, memoryKey{}, m)
}

// BatchBytes returns the number of bytes that a Read should return: most, or less if the host is short of memory. A
// single record may be larger. ctx is the context of the Read.
func BatchBytes(ctx context.Context, most int) int {
	if m, ok := ctx.Value(memoryKey{}).(Memory); ok {
		return min(most, m.Batch())
	}
	return most
}

// Reserve waits until the host has memory for n bytes, the total of the Read with this ctx. A source calls it before it
// allocates a record larger than BatchBytes, because many sources may do so at the same time.
func Reserve(ctx context.Context, n int) error {
	if m, ok := ctx.Value(memoryKey{}).(Memory); ok {
		return m.Reserve(ctx, n)
	}
	return nil
}

// Buffer accounts for the memory of a connector other than the records of calls: received data before it is read, and
// data to write later. Its methods may be called concurrently.
type Buffer interface {
	// Take reserves n bytes. If the host is short of memory, it reserves nothing and returns false. Then the connector
	// waits, refuses or drops, depending on its kind.
	Take(n int) bool
	// Add reserves n bytes that cannot be refused, or frees -n bytes.
	Add(n int)
	// Room returns the number of free bytes, for buffers whose size is chosen once.
	Room() int
	// Close frees all reserved bytes and ends the accounting.
	Close()
}

// NewBuffer returns a buffer for a connector, which closes it in Teardown. The buffer is unlimited if the host sets no
// limit.
func NewBuffer(ctx context.Context) Buffer {
	if newBuffer := EnvFrom(ctx).Buffer; newBuffer != nil {
		return newBuffer()
	}
	return unbounded{}
}

type unbounded struct{}

func (unbounded) Take(int) bool { return true }
func (unbounded) Add(int)       {}
func (unbounded) Room() int     { return math.MaxInt }
func (unbounded) Close()        {}
