package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// stream is a source that reads a stream. A goroutine receives the messages. When the connection or a message is lost,
// it restarts after the last acknowledged message.
type stream struct {
	settings *sourceSettings
	log      *slog.Logger
	inbox    *received
	latest   progress.Latest
	skips    progress.Skips // safe for concurrent use
	pending  atomic.Int64   // messages of the stream not yet received
	begun    position       // start of reading; owned by run after open
	known    bool           // begun is a given position, or reading has begun
	asked    time.Time      // last query of the stream state
	noted    bool           // a consumer marks the start of reading until there is a position
	first    uint64         // sequence number before the start of reading

	cancel context.CancelFunc // nil before open
	done   chan struct{}
}

func (s *stream) open(ctx context.Context, pos record.Position) (err error) {
	s.log = sdk.Logger(ctx)
	if s.begun, err = parsePosition(pos, s.settings.Stream); err != nil {
		return err
	}
	s.known, s.inbox, s.done = len(pos) > 0, newReceived(s.begun.Sequence, s.settings.BufferSize, sdk.NewBuffer(ctx)),
		make(chan struct{})
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go s.run(ctx)
	return nil
}

func (s *stream) run(ctx context.Context) {
	defer close(s.done)
	common.Repeat(ctx, func(works func()) error { return s.session(ctx, works) }, func(err error) bool {
		if errors.As(err, new(gapError)) || errors.As(err, new(deniedError)) || sdk.Panicked(err) {
			s.inbox.Fail(err)
			return false
		}
		s.latest.Note(err.Error())
		s.log.Warn("cannot receive, reconnecting", "err", err)
		return true
	})
}

// gapError reports missed messages.
type gapError struct{ error }

// session receives over one connection.
func (s *stream) session(ctx context.Context, connected func()) (err error) {
	c, err := s.settings.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		err = c.explain(err)
		_ = c.FlushTimeout(s.settings.Timeout) // sends the last acknowledgements
		c.Close()
	}()
	js, err := jetstream.New(c.Conn, jetstream.WithDefaultTimeout(s.settings.Timeout))
	if err != nil {
		return err
	}
	at, err := s.settings.stream(ctx, js)
	if err != nil {
		return err
	}
	if err := s.resume(ctx, at); err != nil {
		return err
	}
	acked, _ := s.inbox.at()
	consumer, err := s.settings.consumer(ctx, js, at, acked, s.noted)
	if err != nil {
		return err
	}
	connected()
	s.latest.Note("")
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the iterator does not notice a lost connection
		select {
		case <-c.lost:
			cancel()
		case <-bounded.Done():
		}
	}()
	// The server never answers a request for fewer bytes than the next message has.
	const around = 64 << 10 // subjects and lengths of a message
	err = s.receive(bounded, at, consumer, max(int(s.settings.BufferSize), int(c.MaxPayload())+around))
	if err == nil || bounded.Err() != nil {
		return c.failure()
	}
	return err
}

// resume checks that the stream is the same as at the position, and still has the messages after it.
func (s *stream) resume(ctx context.Context, at jetstream.Stream) error {
	info := at.CachedInfo()
	_, last := s.inbox.at()
	if !s.known {
		first, err := s.beginning(ctx, at)
		if err != nil {
			return err
		}
		s.inbox.begin(first)
		s.known, s.first, s.begun.Created = true, first, info.Created
		return nil
	}
	var missed error
	switch {
	case !info.Created.Equal(s.begun.Created):
		missed = fmt.Errorf("stream %q was recreated at %s, after the source had read the previous "+
			"stream up to message %d", s.settings.Stream,
			info.Created.Format(time.RFC3339), last)
	case info.State.LastSeq < last:
		missed = fmt.Errorf("stream %q ends at message %d, but the source has read it up to %d: it lost messages, or "+
			"was restored from a backup",
			s.settings.Stream, info.State.LastSeq, last)
	default:
		return s.gap(info, last)
	}
	if err := s.missing(missed); err != nil {
		return err
	}
	s.inbox.restart()
	s.begun.Created = info.Created
	return nil
}

// beginning returns the sequence number after which the first reading starts.
func (s *stream) beginning(ctx context.Context, at jetstream.Stream) (uint64, error) {
	c, err := at.Consumer(ctx, s.settings.base(ctx)+created)
	switch {
	case err == nil:
		s.noted = true
		return c.CachedInfo().AckFloor.Stream, nil
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return 0, s.settings.failed("query a consumer of", err)
	case s.settings.Start == "newest":
		return at.CachedInfo().State.LastSeq, nil
	}
	return 0, nil
}

// gap returns an error when the messages directly after last are gone from a stream that removes messages by age or
// size.
func (s *stream) gap(info *jetstream.StreamInfo, last uint64) error {
	first := info.State.FirstSeq
	if info.Config.Retention != jetstream.LimitsPolicy || first <= last+1 {
		return nil
	}
	return s.missing(fmt.Errorf("up to %d messages of stream %q, from %d to %d, were removed before they were read: "+
		"increase the limits of the stream to keep messages for longer than the source can be stopped",
		first-last-1, s.settings.Stream, last+1, first-1))
}

// missing returns the error for missed messages; nil if the settings allow gaps.
func (s *stream) missing(err error) error {
	if s.settings.Gap == "continue" {
		s.log.Error("messages are missing, continuing with the oldest message", "err", err)
		_, last := s.inbox.at()
		s.skips.Add(fmt.Sprintf("messages of stream %s after %d", s.settings.Stream, last), err)
		return nil
	}
	return gapError{fmt.Errorf("messages were missed: %w. To continue with the remaining messages, set gap to "+
		"continue", err)}
}

const (
	pullMessages = 500
	heartbeat    = 5 * time.Second
)

// receive queues messages until the connection or a message is lost.
func (s *stream) receive(ctx context.Context, at jetstream.Stream, consumer jetstream.Consumer, bytes int) error {
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(min(pullMessages, s.settings.Maximum),
		bytes), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return s.settings.failed("read", err)
	}
	defer messages.Stop()
	for next := uint64(1); ; next++ {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return s.settings.failed("read", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return s.settings.failed("read", err)
		}
		if meta.Sequence.Consumer != next {
			return fmt.Errorf("message %d of the consumer was lost in transit", next)
		}
		if _, last := s.inbox.at(); meta.Sequence.Stream > last+1 {
			if err := s.jump(ctx, at, last); err != nil {
				return err
			}
		}
		one := &message{Msg: m, meta: meta, created: s.begun.Created}
		if err := s.inbox.wait(ctx, s.settings.Maximum, one); err != nil {
			return err
		}
		s.inbox.put(one)
		if acked, _ := s.inbox.at(); s.noted && acked > s.first { // there is a position
			s.noted = false
			_ = at.DeleteConsumer(ctx, s.settings.base(ctx)+created) // on failure the next session removes it
		}
		s.pending.Store(int64(meta.NumPending))
		s.latest.Note("")
	}
}

// jump detects messages that were removed because the source was slower than the stream. With a filter on subjects,
// gaps in the sequence are normal, so it queries the server at most ten times per second.
func (s *stream) jump(ctx context.Context, at jetstream.Stream, last uint64) error {
	const pause = 100 * time.Millisecond
	if last == 0 || len(s.settings.Subjects) > 0 && time.Since(s.asked) < pause {
		return nil
	}
	info, err := at.Info(ctx)
	if err != nil {
		return s.settings.failed("ask for", err)
	}
	s.asked = time.Now()
	return s.gap(info, last)
}

func (s *stream) read(ctx context.Context) ([]record.Record, error) {
	messages, err := s.inbox.read(ctx)
	if err != nil {
		return nil, err
	}
	records := make([]record.Record, len(messages))
	for i, m := range messages {
		r := record.Record{Operation: record.OperationCreate, After: record.Raw(m.Data())}
		metadata(&r, m.Subject(), m.Headers(), m.meta.Timestamp)
		r.Metadata.Set("nats.stream", m.meta.Stream)
		r.Metadata.Set("nats.sequence", strconv.FormatUint(m.meta.Sequence.Stream, 10))
		p := position{Stream: s.settings.Stream, Sequence: m.meta.Sequence.Stream, Resume: 1, Created: m.created}
		if r.Position, err = p.encode(); err != nil {
			return nil, err
		}
		records[i] = r
	}
	return records, nil
}

func nanoseconds(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

func (s *stream) ack(n int) { s.inbox.ack(n) }

func (s *stream) close() {
	ended(s.cancel, s.done)
	if s.inbox != nil {
		s.inbox.buffer.Close()
	}
}

func (s *stream) progress() progress.Report {
	r, behind := s.latest.Report(), s.pending.Load()+int64(s.inbox.unacked())
	r.Records, r.Skipped = &behind, s.skips.List()
	return r
}
