package natskv

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// header carries the value of an entry, so that a watch does not need the state.
const header = "Conduit-Value"

const (
	// idle is the time without a message after which a watch is considered broken: it should have shown the renewals of
	// this agent's own session.
	idle = time.Minute
	// compareEvery is the interval at which the stream is compared with the one that the agent joined.
	compareEvery = 2 * time.Second
)

// Store is a stream. Its methods may be called by several goroutines.
type Store struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	stream atomic.Pointer[jetstream.Stream] // nil until Ready
	prefix string                           // of subjects
	begun  atomic.Int64                     // creation time, which differs from that of any other stream with this name
	other  atomic.Bool                      // the stream was replaced by another one
}

// streamName returns the name of the stream of a cluster.
func streamName(cluster string) string { return "KV_conduit-" + cluster }

// streamConfig returns the required configuration of the stream of a cluster. Its revisions, and so the epochs of
// claims, begin after those of a deleted stream with this name, because a stream handles far less than a million writes
// per second.
func streamConfig(cluster string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              streamName(cluster),
		Description:       "sessions and claims of conduit agents",
		Subjects:          []string{"$KV.conduit-" + cluster + ".>"},
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		AllowRollup:       true,
		DenyDelete:        true,
		AllowMsgTTL:       true,
		FirstSeq:          uint64(time.Now().UnixMicro()),
	}
}

// Write performs a compare-and-swap. It returns when the store has answered or ctx ends.
func (s *Store) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	if s.other.Load() {
		return protocol.Outcome{Result: protocol.Unknown}
	}
	m := &nats.Msg{Subject: s.prefix + w.Key, Data: w.State, Header: nats.Header{header: {string(w.Value)}}}
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(w.Revision),
		jetstream.WithRetryAttempts(0)}
	if w.TTL != 0 {
		options = append(options, jetstream.WithMsgTTL(w.TTL))
	}
	ack, err := s.js.PublishMsg(ctx, m, options...)
	if err == nil {
		return protocol.Outcome{Result: protocol.Applied, Revision: ack.Sequence}
	}
	return outcome(err)
}

// Error codes of a refused compare-and-swap.
const (
	wrongLastSequence         jetstream.ErrorCode = 10071
	wrongLastSequenceConstant jetstream.ErrorCode = 10164 // another write of the key is in flight
)

var lastSequence = regexp.MustCompile(`wrong last sequence: (\d+)`)

func outcome(err error) protocol.Outcome {
	var refused jetstream.JetStreamError
	if !errors.As(err, &refused) || refused.APIError() == nil {
		return protocol.Outcome{Result: protocol.Unknown}
	}
	switch api := refused.APIError(); api.ErrorCode {
	case wrongLastSequence:
		o := protocol.Outcome{Result: protocol.Conflict}
		if m := lastSequence.FindStringSubmatch(api.Description); m != nil {
			o.Revision, _ = strconv.ParseUint(m[1], 10, 64)
		}
		return o
	case wrongLastSequenceConstant:
		return protocol.Outcome{Result: protocol.Busy}
	}
	return protocol.Outcome{Result: protocol.Unknown}
}

var (
	errNotReady = errors.New("cannot read from NATS, which has not responded yet")
	errAnother  = errors.New("the stream of the cluster was recreated since this agent joined: restart all members " +
		"after you have restored it")
)

// joined returns the stream that the agent joined.
func (s *Store) joined() (jetstream.Stream, error) {
	stream := s.stream.Load()
	switch {
	case stream == nil:
		return nil, errNotReady
	case s.other.Load():
		return nil, errAnother
	}
	return *stream, nil
}

// compare returns an error if the stream is not the one that the agent joined. That error is permanent.
func (s *Store) compare(ctx context.Context, stream jetstream.Stream) error {
	ctx, cancel := context.WithTimeout(ctx, compareEvery)
	defer cancel()
	info, err := stream.Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return err
	case err != nil: // out of reach
		return nil
	case info.Created.UnixNano() != s.begun.Load():
		s.other.Store(true)
		return errAnother
	}
	return nil
}

// Read returns the entry of a key, from the leader of the stream.
func (s *Store) Read(ctx context.Context, key string) (protocol.Entry, error) {
	stream, err := s.joined()
	if err != nil {
		return protocol.Entry{}, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, s.prefix+key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return protocol.Entry{Key: key}, nil
	case err != nil:
		return protocol.Entry{}, fmt.Errorf("cannot read %s from NATS: %w", key, err)
	}
	return protocol.Entry{Key: key, Value: []byte(m.Header.Get(header)), State: m.Data, Revision: m.Sequence}, nil
}

// Watch calls observe with the entry of every key, without its state, then calls synced, and then calls observe with
// the latest entry of each key that changes. It returns an error when it cannot continue. A new call starts from the
// beginning.
func (s *Store) Watch(ctx context.Context, observe func(protocol.Entry), synced func()) error {
	stream, err := s.joined()
	if err == nil {
		err = s.compare(ctx, stream)
	}
	if err != nil {
		return fmt.Errorf("cannot watch NATS: %w", err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{s.prefix + ">"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		HeadersOnly: true,
	})
	if err != nil {
		return fmt.Errorf("cannot watch NATS: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1000))
	if err != nil {
		return fmt.Errorf("cannot watch NATS: %w", err)
	}
	defer messages.Stop()
	if info := consumer.CachedInfo(); info != nil && info.NumPending == 0 {
		synced()
		synced = nil
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go s.keepComparing(ctx, stream, end)
	for {
		// A single call for as long as no message comes: each call restarts the wait for the server's heartbeats.
		next, cancel := context.WithTimeout(ctx, idle)
		m, err := messages.Next(jetstream.NextContext(next))
		cancel()
		if ended := context.Cause(ctx); err != nil && ended != nil {
			err = ended
		}
		if err != nil {
			return fmt.Errorf("cannot watch NATS: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("cannot watch NATS: %w", err)
		}
		observe(protocol.Entry{
			Key: strings.TrimPrefix(m.Subject(), s.prefix), Value: []byte(m.Headers().Get(header)),
			Revision: meta.Sequence.Stream,
		})
		if synced != nil && meta.NumPending == 0 {
			synced()
			synced = nil
		}
	}
}

// keepComparing compares the stream with the one that the agent joined until ctx ends. If it is another one, it ends
// the watch.
func (s *Store) keepComparing(ctx context.Context, stream jetstream.Stream, end context.CancelCauseFunc) {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := s.compare(ctx, stream); err != nil {
			end(err)
			return
		}
	}
}

// Close ends the connection.
func (s *Store) Close() { s.conn.Close() }
