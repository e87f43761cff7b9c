package sdk

import (
	"context"
	"math"
)

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

// WithMemory returns a context for Reads of a source with bounded memory, nil where it is not bounded.
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

// Buffer counts what a connector holds in memory in addition to the records of calls: what it received and
// is yet to be read, what it writes later. Its methods may be called concurrently.
type Buffer interface {
	// Take counts n bytes, and reports false, having counted none, when the host is short of
	// memory: the connector then waits, refuses or drops as its kind does.
	Take(n int) bool
	// Add counts n bytes more where they cannot be refused, or -n bytes less.
	Add(n int)
	// Room returns how many bytes are free: for buffers whose size is chosen once.
	Room() int
	// Close counts nothing any more.
	Close()
}

// NewBuffer returns a buffer for a connector, which closes it in Teardown. It is without bounds
// where the host has none.
func NewBuffer(ctx context.Context) Buffer {
	if of := EnvFrom(ctx).Buffer; of != nil {
		return of()
	}
	return unbounded{}
}

type unbounded struct{}

func (unbounded) Take(int) bool { return true }
func (unbounded) Add(int)       {}
func (unbounded) Room() int     { return math.MaxInt }
func (unbounded) Close()        {}
