package main

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sequences refuses batches whose place in a sequence the broker cannot know. kfake writes the sequence numbers of
// producers when it is stopped; after a kill it accepts any batch as the first of a producer, also one whose
// predecessors are lost. A real broker recovers the numbers from its log.
type sequences struct {
	cluster *kfake.Cluster
	stopped string // path of a file that exists while the numbers are on disk

	mu   sync.Mutex
	lost bool              // guarded by mu: the broker was killed
	seen map[sequence]bool // guarded by mu: sequences that began since the start
}

type sequence struct {
	producer  int64
	epoch     int16
	topic     string
	partition int32
}

// newSequences is called before the cluster starts.
func newSequences(data string) (*sequences, error) {
	s := &sequences{stopped: filepath.Clean(data) + ".stopped", seen: map[sequence]bool{}}
	if entries, _ := os.ReadDir(data); len(entries) == 0 {
		return s, nil
	}
	err := os.Remove(s.stopped)
	if s.lost = os.IsNotExist(err); s.lost {
		err = nil
	}
	return s, err
}

// attach makes the cluster check its requests.
func (s *sequences) attach(c *kfake.Cluster) {
	s.cluster = c
	c.ControlKey(int16(kmsg.Produce), s.check)
}

// keep is called when the cluster has stopped.
func (s *sequences) keep() error { return os.WriteFile(s.stopped, nil, 0o644) }

func (s *sequences) check(r kmsg.Request) (kmsg.Response, error, bool) {
	s.cluster.KeepControl()
	req := r.(*kmsg.ProduceRequest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lost || s.known(req) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, kerr.UnknownProducerID.Code
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil, true
}

// known reports whether each batch begins a sequence or belongs to a known one.
func (s *sequences) known(req *kmsg.ProduceRequest) bool {
	all := true
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			var b kmsg.RecordBatch
			if err := b.ReadFrom(p.Records); err != nil || b.ProducerID < 0 {
				continue
			}
			key := sequence{b.ProducerID, b.ProducerEpoch, t.Topic + string(t.TopicID[:]), p.Partition}
			if b.FirstSequence == 0 {
				s.seen[key] = true
			}
			all = all && s.seen[key]
		}
	}
	return all
}
