package otlp

import (
	"context"
	"log/slog"
	"time"
)

// Hasten shortens the durations of sending, until restore is called.
func Hasten(export time.Duration) (restore func()) {
	usual := pace
	pace.gather, pace.retry, pace.export = 10*time.Millisecond, 10*time.Millisecond, export
	return func() { pace = usual }
}

// Queue is a queue of numbers.
type Queue struct{ *queue[int] }

// The bounds of a queue.
const (
	QueueLength = queueLength
	BatchLength = batchLength
)

// NewQueue returns a queue that sends with export.
func NewQueue(log *slog.Logger, export func(ctx context.Context, batch []int) error) Queue {
	return Queue{newQueue(newHealth(log, "numbers", &collector{}), export)}
}

// Add adds a number.
func (q Queue) Add(n int) { q.add(n) }

// Run sends until ctx ends, and then the rest.
func (q Queue) Run(ctx context.Context) { _ = q.run(ctx) }

// Counts returns how many numbers were sent and dropped.
func (q Queue) Counts() (sent, dropped uint64) { return q.sent.Load(), q.dropped.Load() }
