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

// Special timestamps of a ListOffsets request.
const (
	atStart = -2
	atEnd   = -1
)

// listed is the offset in a broker's answer, or its error.
type listed struct {
	offset int64
	err    error
}

// listing holds the offsets of partitions.
type listing map[topicPartition]listed

// listOffsets requests the offsets of all partitions of topics at a timestamp: atStart or atEnd. With committed, the
// end is the end of the last completed transaction. A failure for one partition is an error in its listed.
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
	for _, shard := range client.RequestSharded(ctx, r) { // one per broker that leads some of the partitions
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

// denied reports whether the client lacks authorization for the request.
func denied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed)
}

// topicID is the id of a topic, or zero if the broker does not support ids.
type topicID [16]byte

// String returns the id in the form that brokers print.
func (t topicID) String() string { return base64.StdEncoding.EncodeToString(t[:]) }

// detail is the metadata of a topic.
type detail struct {
	id         topicID
	partitions []int32
}

// describe requests the metadata of topics. A topic that does not exist has no partitions.
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

// requestTimeout is the time limit of brokers for creating and deleting topics.
const requestTimeout = 15 * time.Second

// createTopic creates a topic with one partition and the given settings.
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

// deleteTopic deletes a topic.
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

// deleteGroup deletes a consumer group.
func deleteGroup(ctx context.Context, client *kgo.Client, group string) error {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{group}
	answer, err := r.RequestWith(ctx, client)
	if err != nil || len(answer.Groups) == 0 {
		return err
	}
	return kerr.ErrorForCode(answer.Groups[0].ErrorCode)
}
