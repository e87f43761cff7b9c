package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// window is larger than the number of records that an agent ever has outstanding from one source.
const window = 1 << 18

// hash identifies a record of a source.
type hash [16]byte

// piece is a record, or one of several records that processors made from one record and that share its position.
type piece struct {
	origin string // see common.OriginOf
	number uint64 // index among consecutive pieces with the same origin
	hash   hash
}

// pieces returns the pieces of the records, counting from the last settled one.
func (o *once) pieces(records []record.Record) []piece {
	all := make([]piece, len(records))
	before := o.last
	for i := range records {
		p := piece{origin: common.OriginOf(&records[i])}
		if p.origin == before.origin {
			p.number = before.number + 1
		}
		text := []byte(p.origin)
		if p.number > 0 {
			text = binary.AppendUvarint(append(text, 0), p.number)
		}
		sum := sha256.Sum256(text)
		copy(p.hash[:], sum[:])
		all[i], before = p, p
	}
	return all
}

// unknown returns the records that were not written before the destination was opened, and their indexes.
func (o *once) unknown(records []record.Record, pieces []piece) (left []record.Record, indexes []int) {
	left, indexes = make([]record.Record, 0, len(records)), make([]int, 0, len(records))
	for i := range records {
		if _, ok := o.known[pieces[i].hash]; !ok {
			left, indexes = append(left, records[i]), append(indexes, i)
		}
	}
	return left, indexes
}

// createPositions creates the topic if it does not exist. Entries older than the window are removed by size, not by
// age.
func createPositions(ctx context.Context, client *kgo.Client, topic string) error {
	_, err := kadm.NewClient(client).CreateTopic(ctx, 1, -1, map[string]*string{
		"cleanup.policy":  new("delete"),
		"retention.ms":    new("-1"),
		"retention.bytes": new("268435456"),
		"segment.bytes":   new("16777216"),
	}, topic)
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return nil // an existing topic is sufficient; without one, producing fails
	}
	return sdk.Unavailable(fmt.Errorf("cannot create topic %q: %w", topic, err))
}

// readPositions returns the hashes in the topic, at least those of the last window.
func readPositions(ctx context.Context, settings clientSettings, topic string) (map[hash]struct{}, error) {
	opts, err := settings.options()
	if err != nil {
		return nil, err
	}
	bounded, bound, err := settings.bounded(batchBytes(ctx))
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(append(opts, bounded...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchBytes),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	start, end, err := bounds(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	known := map[hash]struct{}{}
	const first = 256 // offsets, doubled until they contain enough hashes
	for to, span := end, int64(first); to > start && len(known) < window; span *= 2 {
		from := max(start, to-span)
		if err := readHashes(ctx, client, bound, topic, from, to, known); err != nil {
			return nil, err
		}
		to = from
	}
	return known, nil
}

// bounds returns the start and end offsets of the topic.
func bounds(ctx context.Context, client *kgo.Client, topic string) (start, end int64, err error) {
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	if len(starts[topic]) > 1 {
		return 0, 0, fmt.Errorf("it has %d partitions instead of 1", len(starts[topic]))
	}
	first, ok := starts.Lookup(topic, 0)
	last, known := ends.Lookup(topic, 0)
	if !ok || !known {
		return 0, 0, kerr.UnknownTopicOrPartition
	}
	return first.Offset, last.Offset, errors.Join(first.Err, last.Err)
}

// readHashes adds the hashes between two offsets.
func readHashes(
	ctx context.Context, client *kgo.Client, bound *Bound, topic string, from, to int64, known map[hash]struct{},
) error {
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}})
	defer client.RemoveConsumePartitions(map[string][]int32{topic: {0}})
	for from < to {
		fetches := client.PollFetches(ctx)
		bound.Release()
		if err := fetches.Err(); err != nil && !errors.Is(err, ErrLater) {
			return err
		}
		fetches.EachRecord(func(m *kgo.Record) {
			from = m.Offset + 1
			if m.Attrs.IsControl() || m.Offset >= to {
				return
			}
			for v := m.Value; len(v) >= len(hash{}); v = v[len(hash{}):] {
				known[hash(v[:len(hash{})])] = struct{}{}
			}
		})
	}
	return nil
}
