package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

type onceSettings struct {
	// Whether records and their positions are written in one transaction, so that no record is duplicated after a
	// restart. For consumers that read only committed transactions.
	ExactlyOnce bool `json:"exactlyOnce" default:"false"`
	// Transactional id, used by this destination only. Default: conduit- and a name derived from the connector's id. A
	// replay of dead letters adds /replay.
	TransactionalID string `json:"transactionalID" literal:"true"`
	// Topic for the positions of the last written records, used by this destination only, with one partition. Default:
	// conduit-positions- and a name derived from the connector's id. It is created if it does not exist.
	PositionsTopic string `json:"positionsTopic" literal:"true"`
}

// once writes records together with their positions in transactions. After a restart an agent resends the outstanding
// records and no others: once skips those in the positions topic.
type once struct {
	id, topic string
	client    *kgo.Client
	known     map[hash]struct{} // written before the transactions were opened; nil when they cannot arrive again
	since     int               // records written since then
	last      piece             // the last one written or refused
}

// newOnce returns the transactions of a destination. A broker fences a producer when another one uses its transactional
// id, so a replay has another id. Both add to the same positions.
func newOnce(s *destinationSettings, env *sdk.Env) *once {
	name := texts.Word(env.ConnectorID)
	o := &once{id: s.TransactionalID, topic: s.PositionsTopic}
	if o.id == "" {
		o.id = "conduit-" + name
	}
	if env.Replay {
		o.id += "/replay" // no name of a connector has a slash
	}
	if o.topic == "" {
		o.topic = positionsPrefix + name
	}
	return o
}

const positionsPrefix = "conduit-positions-"

func (o *once) options() []kgo.Opt { return []kgo.Opt{kgo.TransactionalID(o.id)} }

// open aborts the transaction of a former producer with the same transactional id, and then reads which records were
// written.
func (o *once) open(ctx context.Context, client *kgo.Client, settings clientSettings) error {
	o.client = client
	if err := createPositions(ctx, client, o.topic); err != nil {
		return err
	}
	if _, _, err := client.ProducerID(ctx); err != nil {
		return sdk.Unavailable(fmt.Errorf("cannot use transactional id %q: %w", o.id, err))
	}
	var err error
	if o.known, err = readPositions(ctx, settings, o.topic); err != nil {
		return sdk.Unavailable(fmt.Errorf("cannot read positions from topic %q: %w", o.topic, err))
	}
	return nil
}

// write writes the records that have not been written yet.
func (o *once) write(ctx context.Context, d *Destination, records []record.Record) (int, error) {
	pieces := o.pieces(records)
	left, indexes := o.unknown(records, pieces)
	messages, err := d.messages(left)
	done, failed := o.writeAll(ctx, d, messages, func(i int) hash { return pieces[indexes[i]].hash })
	n := len(records)
	switch {
	case failed != nil:
		n, err = indexes[done], failed
	case err != nil:
		n = indexes[len(messages)]
	}
	if i := min(n, len(pieces)-1); i >= 0 {
		o.last = pieces[i]
	}
	if o.since += n; o.since > window {
		o.known = nil // all outstanding records arrived long ago
	}
	return n, err
}

// writeAll writes messages in as few transactions as possible, and returns the number of committed messages. It aborts
// a transaction with a refused message, and retries with the messages before it.
func (o *once) writeAll(
	ctx context.Context, d *Destination, messages []*kgo.Record, hashOf func(int) hash,
) (done int, err error) {
	size := maxBuffered - 1
	for done < len(messages) {
		size = min(size, len(messages)-done)
		var hashes []byte
		for i := range size {
			h := hashOf(done + i)
			hashes = append(hashes, h[:]...)
		}
		good, err := o.transact(ctx, d, messages[done:done+size], hashes)
		switch {
		case err == nil:
			done += size
		case !refusal(err) || size == 1:
			return done, err
		case tooLarge(err): // the broker does not say which message is too large
			size /= 2
		case good == 0:
			return done, err
		default:
			size = good
		}
	}
	return done, nil
}

func refusal(err error) bool {
	var lost interface{ Lost() bool }
	return !errors.As(err, &lost)
}

// transact writes the messages and their hashes in a transaction. If a message is refused, it writes nothing, and
// returns the number of messages before it.
func (o *once) transact(
	ctx context.Context, d *Destination, messages []*kgo.Record, hashes []byte,
) (good int, err error) {
	if err := o.client.BeginTransaction(); err != nil {
		return 0, o.broken(err)
	}
	all := append(messages[:len(messages):len(messages)], &kgo.Record{Topic: o.topic, Partition: 0, Value: hashes})
	good, err = d.judge(ctx, all, produce(ctx, o.client, all))
	if err == nil {
		if err := o.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return 0, o.broken(err)
		}
		return good, nil
	}
	if good == len(messages) || !refusal(err) || ctx.Err() != nil {
		return 0, o.broken(err)
	}
	if abort := o.abort(ctx); abort != nil {
		return 0, o.broken(abort)
	}
	return good, err
}

func (o *once) abort(ctx context.Context) error {
	if err := o.client.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	return o.client.EndTransaction(ctx, kgo.TryAbort)
}

// broken returns err as an error that requires reopening the destination. Reopening finds out whether the transaction
// was committed.
func (o *once) broken(err error) error {
	if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
		return sdk.Unavailable(fmt.Errorf("another producer uses transactional id %q: set transactionalID of each "+
			"destination to a unique id: %w", o.id, err))
	}
	return sdk.Unavailable(fmt.Errorf("cannot write in a transaction: %w", err))
}
