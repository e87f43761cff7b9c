package kafka

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a list of offsets asks for, in place of a time.
const (
	atStart = -2
	atEnd   = -1
)

// listed is an offset that a broker answered with, or why it did not.
type listed struct {
	offset int64
	err    error
}

// listing has the offsets of partitions.
type listing map[topicPartition]listed

// listOffsets asks for the offsets of all partitions of topics: atStart or atEnd, which with committed is behind the last
// message of transactions that ended. What cannot be learned of a partition is an error of that one.
func listOffsets(ctx context.Context, client *kgo.Client, at int64, committed bool, topics ...string) (listing, error) {
	details, err := describe(ctx, client, topics...)
	if err != nil {
		return nil, err
	}
	r := kmsg.NewPtrListOffsetsRequest()
	r.ReplicaID = -1
	if committed {
		r.IsolationLevel = 1
	}
	all := listing{}
	for topic, d := range details {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, number := range d.partitions {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = number, at
			t.Partitions = append(t.Partitions, p)
		}
		if len(t.Partitions) > 0 {
			r.Topics = append(r.Topics, t)
		}
	}
	if len(r.Topics) == 0 {
		return all, nil
	}
	for _, shard := range client.RequestSharded(ctx, r) { // one of each broker that leads some
		if shard.Err != nil {
			return nil, shard.Err
		}
		if err := all.add(shard.Resp.(*kmsg.ListOffsetsResponse)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (l listing) add(answer *kmsg.ListOffsetsResponse) error {
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			if denied(err) {
				return err
			}
			l[topicPartition{t.Topic, p.Partition}] = listed{p.Offset, err}
		}
	}
	return nil
}

// denied reports whether the client may not do what it asked for.
func denied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed)
}

// topicID is the id of a topic, zero where brokers have none.
type topicID [16]byte

// String returns the id as brokers write it.
func (t topicID) String() string { return base64.StdEncoding.EncodeToString(t[:]) }

// detail is what brokers know of a topic.
type detail struct {
	id         topicID
	partitions []int32
}

// describe asks for topics. One that is not there has no partitions.
func describe(ctx context.Context, client *kgo.Client, topics ...string) (map[string]detail, error) {
	r := kmsg.NewPtrMetadataRequest()
	r.Topics = []kmsg.MetadataRequestTopic{}
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		r.Topics = append(r.Topics, t)
	}
	answer, err := r.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	all := map[string]detail{}
	for _, t := range answer.Topics {
		if t.Topic == nil {
			continue
		}
		d := detail{id: t.TopicID}
		err := kerr.ErrorForCode(t.ErrorCode)
		if denied(err) {
			return nil, err
		}
		for _, p := range t.Partitions {
			if err == nil {
				d.partitions = append(d.partitions, p.Partition)
			}
		}
		all[*t.Topic] = d
	}
	return all, nil
}

// requestTimeout is how long brokers may take for a change of topics.
const requestTimeout = 15 * time.Second

// createTopic makes a topic of one partition with settings.
func createTopic(ctx context.Context, client *kgo.Client, topic string, settings map[string]string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, -1
	for name, value := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		t.Configs = append(t.Configs, c)
	}
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis, r.Topics = int32(requestTimeout.Milliseconds()), []kmsg.CreateTopicsRequestTopic{t}
	answer, err := r.RequestWith(ctx, client)
	if err != nil || len(answer.Topics) == 0 {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

// deleteTopic removes a topic.
func deleteTopic(ctx context.Context, client *kgo.Client, topic string) error {
	r := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &topic
	r.TimeoutMillis, r.TopicNames, r.Topics = int32(requestTimeout.Milliseconds()), []string{topic}, []kmsg.DeleteTopicsRequestTopic{t}
	answer, err := r.RequestWith(ctx, client)
	if err != nil || len(answer.Topics) == 0 {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

// deleteGroup removes a consumer group.
func deleteGroup(ctx context.Context, client *kgo.Client, group string) error {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{group}
	answer, err := r.RequestWith(ctx, client)
	if err != nil || len(answer.Groups) == 0 {
		return err
	}
	return kerr.ErrorForCode(answer.Groups[0].ErrorCode)
}
