package logging

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Limits of the queue for the reader of the log.
const (
	maxQueued  = 1 << 20         // bytes of lines
	endTimeout = 2 * time.Second // for the reader to take them at the end
)

// Queue writes lines in the background, so that logging never waits for a blocked reader of the log, such as a full
// pipe. A line that finds no space is dropped and counted, and the number is logged when there is space again. Only a
// line with a record of a pipeline waits until it is written, as the log is the destination of that pipeline.
type Queue struct {
	w    io.Writer
	wake chan struct{} // holds one value when lines are queued
	done chan struct{} // closed when the last line is written

	writing sync.Mutex // held during a write to w

	mu      sync.Mutex
	enc     encoder // of the line with the number of dropped lines; guarded by mu
	queued  []byte  // lines, in order; guarded by mu
	dropped int     // lines; guarded by mu
	closed  bool    // guarded by mu
}

// NewQueue returns a queue to w. Nothing else may write to w until Close returns.
func NewQueue(w io.Writer) *Queue {
	q := &Queue{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run()
	return q
}

// Write queues p, which is one or more lines. It never waits, and returns no error.
func (q *Queue) Write(p []byte) (int, error) { return len(p), q.writeLine(p, false) }

// Close returns when all queued lines are written, or after two seconds.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.notify()
	select {
	case <-q.done:
	case <-time.After(endTimeout):
	}
}

func (q *Queue) writeLine(line []byte, hasRecord bool) error {
	if !hasRecord {
		q.push(line)
		return nil
	}
	q.writing.Lock()
	defer q.writing.Unlock()
	if err := q.flush(); err != nil {
		return err
	}
	_, err := q.w.Write(line)
	return err
}

// push queues a line if there is space.
func (q *Queue) push(line []byte) {
	q.mu.Lock()
	fits := len(q.queued)+len(line) <= maxQueued
	if fits {
		q.queued = append(q.queued, line...)
	} else {
		q.dropped++
	}
	q.mu.Unlock()
	if fits {
		q.notify()
	}
}

func (q *Queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run writes queued lines until the queue is closed.
func (q *Queue) run() {
	defer close(q.done)
	for range q.wake {
		q.writing.Lock()
		_ = q.flush() // there is no other place to report an error
		q.writing.Unlock()
		q.mu.Lock()
		ended := q.closed && len(q.queued) == 0
		q.mu.Unlock()
		if ended {
			return
		}
	}
}

// flush writes the queued lines, and then the number of dropped lines. The caller holds writing.
func (q *Queue) flush() error {
	q.mu.Lock()
	lines, dropped, enc := q.queued, q.dropped, q.enc
	q.queued, q.dropped = nil, 0
	q.mu.Unlock()
	if dropped > 0 && enc != nil {
		r := slog.NewRecord(time.Now(), slog.LevelWarn,
			fmt.Sprintf("%d log lines were dropped: the reader was too slow", dropped), 0)
		lines = enc.end(enc.begin(lines, &r))
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := q.w.Write(lines)
	return err
}

// render sets the encoder for messages of the queue itself.
func (q *Queue) render(enc encoder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enc = enc
}
