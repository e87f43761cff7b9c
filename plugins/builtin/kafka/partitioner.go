package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partitioner keeps the partition that a message names. It partitions other messages by key or, without a key, in
// batches to one partition after another.
type partitioner struct{ kgo.Partitioner }

func newPartitioner() kgo.Partitioner {
	const bytes = 64 << 10 // per batch for the same partition
	return partitioner{kgo.UniformBytesPartitioner(bytes, true, true, nil)}
}

// ForTopic returns the partitioner of a topic.
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	t := p.Partitioner.ForTopic(topic)
	return topicPartitioner{t, t.(kgo.TopicBackupPartitioner)}
}

type topicPartitioner struct {
	kgo.TopicPartitioner
	backup kgo.TopicBackupPartitioner
}

var _ kgo.TopicBackupPartitioner = topicPartitioner{}

// RequiresConsistency reports whether the message must go to one particular partition.
func (p topicPartitioner) RequiresConsistency(m *kgo.Record) bool {
	return m.Partition != byKey || p.TopicPartitioner.RequiresConsistency(m)
}

// PartitionByBackup chooses one of n partitions. It fails if the named partition does not exist.
func (p topicPartitioner) PartitionByBackup(m *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	switch {
	case m.Partition == byKey:
		return p.backup.PartitionByBackup(m, n, backup)
	case int(m.Partition) >= n:
		m.Context = noSuchPartition
	}
	return int(m.Partition)
}

type partitionKey struct{}

// noSuchPartition marks a message whose partition does not exist: the client's error for that has no type.
var noSuchPartition = context.WithValue(context.Background(), partitionKey{}, true)
