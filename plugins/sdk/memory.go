package sdk

import "context"

// Memory is what the host has for the records of a source.
type Memory interface {
	// Batch returns how many bytes the Read that runs should return at most. A single record
	// may be larger.
	Batch() int
	// Reserve waits until the Read that runs may hold so many bytes in all, and returns an
	// error when ctx ends before.
	Reserve(ctx context.Context, n int) error
}

type memoryKey struct{}

// WithMemory returns a context for Reads of a source with bounded memory.
func WithMemory(ctx context.Context, m Memory) context.Context {
	return context.WithValue(ctx, memoryKey{}, m)
}

// BatchBytes returns how many bytes a Read should return: most, or less where the host is
// short of memory. A single record may be larger. ctx is that of the Read.
func BatchBytes(ctx context.Context, most int) int {
	if m, ok := ctx.Value(memoryKey{}).(Memory); ok {
		return min(most, m.Batch())
	}
	return most
}

// Reserve waits until the host has memory for so many bytes, all that the Read with this
// ctx holds. A source calls it before it takes memory for a record that is larger than
// BatchBytes: many sources could do so at the same time.
func Reserve(ctx context.Context, n int) error {
	if m, ok := ctx.Value(memoryKey{}).(Memory); ok {
		return m.Reserve(ctx, n)
	}
	return nil
}
