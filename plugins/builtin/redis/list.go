package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// list moves elements of a list to another one, the processing list, and removes them from there in order when they are
// acknowledged. The same transaction counts the removed elements: an acknowledgement whose answer is lost is neither
// repeated nor lost.
type list struct {
	settings   *sourceSettings
	log        *slog.Logger
	latest     *progress.Latest
	processing string
	numbers    common.Numbers
	resume     bool // the processing list may have unread elements; owned by read

	mu    sync.Mutex
	conn  redis.Conn // guarded by mu: for acknowledgements; nil when not connected
	tried time.Time  // guarded by mu: last failed attempt to connect
	base  int64      // guarded by mu: value of the counter at the start; -1: unknown
	taken int64      // guarded by mu: elements read since the start
	acked int64      // guarded by mu: elements acknowledged since the start
}

func (s *sourceSettings) processing(ctx context.Context) string {
	if s.Processing != "" || len(s.Key) == 0 {
		return s.Processing
	}
	return keyOf(ctx, s.Key[0]+":conduit")
}

func newList(
	ctx context.Context, settings *sourceSettings, log *slog.Logger, latest *progress.Latest, pos record.Position,
) (*list, error) {
	n, err := common.NewNumbers(pos)
	return &list{settings: settings, log: log, latest: latest, processing: settings.processing(ctx), numbers: n,
		base: -1}, err
}

// counter returns the key of the counter of elements removed from the processing list.
func counter(processing string) string { return processing + ":removed" }

func (l *list) connected(context.Context, redis.Conn) error {
	l.resume = true
	return nil
}

// read returns the unread elements of the processing list, which exist after a lost answer. Without any it moves
// further elements there.
func (l *list) read(ctx context.Context, c redis.Conn) ([]record.Record, error) {
	var elements [][]byte
	var err error
	if l.resume {
		elements, err = l.left(ctx)
		l.resume = err != nil || len(elements) == l.settings.Maximum
	}
	if err == nil && len(elements) == 0 {
		elements, err = l.move(c)
	}
	if err != nil || len(elements) == 0 {
		return nil, err
	}
	records := make([]record.Record, len(elements))
	for i, e := range elements {
		records[i] = record.Record{Position: l.numbers.Next(), Operation: record.OperationCreate, After: record.Raw(e)}
		records[i].Metadata.Set(record.KeyCollection, l.settings.Key[0])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken += int64(len(records))
	return records, nil
}

// left returns the elements of the processing list after those already read.
func (l *list) left(ctx context.Context) ([][]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.remove(ctx); err != nil {
		return nil, err
	}
	first := l.taken - l.acked
	elements, err := redis.ByteSlices(l.conn.Do("LRANGE", l.processing, first, first+int64(l.settings.Maximum)-1))
	if err != nil {
		l.disconnect()
	}
	return elements, err
}

// move moves elements to the processing list, and waits for the first one.
func (l *list) move(c redis.Conn) (elements [][]byte, err error) {
	const pipelined = 100
	n := min(pipelined, l.settings.Maximum)
	for range n {
		if err := c.Send("LMOVE", l.settings.Key[0], l.processing, "LEFT", "RIGHT"); err != nil {
			return nil, err
		}
	}
	if err := c.Send("LLEN", l.settings.Key[0]); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	for range n {
		e, err := redis.Bytes(c.Receive())
		switch {
		case err == nil:
			elements = append(elements, e)
		case ignoreNil(err) != nil:
			return nil, err // the moved elements are in the processing list
		}
	}
	if err := l.report(c.Receive()); err != nil {
		return nil, err
	}
	if len(elements) > 0 {
		return elements, nil
	}
	e, err := redis.Bytes(redis.DoWithTimeout(c, blockTime+l.settings.Timeout, "BLMOVE", l.settings.Key[0],
		l.processing, "LEFT", "RIGHT", blockTime.Seconds()))
	if err != nil {
		return nil, ignoreNil(err)
	}
	return [][]byte{e}, nil
}

// report records the number of elements left in the list. A missing permission to query it is no error.
func (l *list) report(reply any, err error) error {
	r := progress.Report{At: time.Now()}
	left, err := redis.Int64(reply, err)
	switch {
	case err == nil:
		r.Records = &left
	case !isReply(err):
		return err
	}
	l.latest.Set(r)
	return nil
}

// ack removes the next n read elements, now or with a later acknowledgement.
func (l *list) ack(ctx context.Context, n int) error {
	const pause = time.Second
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked += int64(n)
	if l.conn == nil && time.Since(l.tried) < pause {
		return nil
	}
	if err := l.remove(ctx); err != nil {
		l.tried = time.Now()
		l.log.Warn("cannot remove acknowledged elements, retrying", "err", err)
	}
	return nil
}

// remove removes the acknowledged elements that are still in the processing list.
func (l *list) remove(ctx context.Context) (err error) {
	if l.conn == nil {
		if l.conn, err = l.settings.dial(ctx); err != nil {
			l.conn = nil
			return err
		}
	}
	defer func() {
		if err != nil {
			l.disconnect()
		}
	}()
	count, err := redis.Int64(l.conn.Do("GET", counter(l.processing)))
	if err = ignoreNil(err); err != nil {
		return err
	}
	if l.base < 0 {
		l.base = count
	}
	n := l.acked - (count - l.base)
	if n <= 0 {
		return nil
	}
	for _, command := range [][]any{{"MULTI"}, {"LTRIM", l.processing, n, -1}, {"INCRBY", counter(l.processing), n},
		{"EXEC"}} {
		if err := l.conn.Send(command[0].(string), command[1:]...); err != nil {
			return err
		}
	}
	_, err = last(l.conn, 4)
	return err
}

func (l *list) disconnect() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

func (l *list) close(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.base >= 0 {
		if err := l.remove(ctx); err != nil {
			l.log.Warn("cannot remove acknowledged elements, so they will be delivered again", "err", err)
		}
	}
	l.disconnect()
}

// giveBack moves the elements of the processing list back to the source list, in order.
func (s *sourceSettings) giveBack(ctx context.Context) error {
	c, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("cannot return unacknowledged elements: %w", err)
	}
	defer func() { _ = c.Close() }()
	processing := s.processing(ctx)
	for {
		_, err := redis.Bytes(c.Do("LMOVE", processing, s.Key[0], "RIGHT", "LEFT"))
		if err == redis.ErrNil { //nolint:errorlint // it is never wrapped
			break
		}
		if err != nil {
			return fmt.Errorf("cannot return unacknowledged elements: %w", err)
		}
	}
	if _, err := c.Do("DEL", counter(processing)); err != nil {
		return fmt.Errorf("cannot remove %s: %w", counter(processing), err)
	}
	return nil
}
