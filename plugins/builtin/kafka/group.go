package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type topicPartition struct {
	topic  string
	number int32
}

// partition is a partition assigned to this member of the group.
type partition struct {
	topicPartition
	delivered int64 // offset after the last record that Read returned
	seen      int64 // offset after the last message read, including transaction markers
	acked     int64 // offset after the last acknowledged record
	committed int64 // offset in the group; -1: none
	epoch     int32 // of the leader, at seen; -1: unknown
	end       int64 // end of the readable messages, when last known
	newest    time.Time
	assigned  bool // to this member; otherwise kept for outstanding records
	revoked   bool // reading has ended

	assignment int // number of assignments so far
}

// settled returns the offset from which a restart resumes.
func (p *partition) settled() int64 {
	if p.acked >= p.delivered {
		return p.seen
	}
	return p.acked
}

// state holds the partitions of the source.
type state struct {
	resumed bool // there was a position
	whole   bool // the position had the offsets of all partitions

	mu          sync.Mutex
	change      *sync.Cond                    // of acknowledgements and closed
	parts       map[topicPartition]*partition // all that were ever assigned
	next        vector                        // offsets at which partitions resume, including those of other members
	ids         topicIDs                      // of the topics in next
	first       vector                        // start of partitions without an offset, except partitions created later
	uncommitted int                           // acknowledgements since the last commit
	closed      bool
	asked       time.Time // time of the last request for the ends of partitions
}

func (s *state) init() {
	s.change = sync.NewCond(&s.mu)
	s.parts, s.next, s.ids, s.first = map[topicPartition]*partition{}, vector{}, topicIDs{}, vector{}
}

// acked records an acknowledgement. The caller holds mu.
func (s *state) acked(tp topicPartition, offset int64) {
	if p := s.parts[tp]; p != nil && offset > p.acked {
		p.acked = offset
		s.change.Broadcast()
	}
}

func (s *state) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.change.Broadcast()
}

// drainTimeout bounds how long revoked partitions wait for the acknowledgement of their records. Records that are
// unacknowledged by then are read twice.
const drainTimeout = 15 * time.Second

// revoked commits the acknowledged offsets of the partitions, and gives the partitions up.
func (s *Source) revoked(ctx context.Context, _ *kgo.Client, lost map[string][]int32) {
	s.drain(ctx, lost)
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	s.commit(ctx)
	s.forget(lost)
}

func (s *state) forget(lost map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, numbers := range lost {
		for _, n := range numbers {
			if p := s.parts[topicPartition{topic, n}]; p != nil {
				p.assigned = false
			}
		}
	}
}

// drain stops reading the partitions, and waits until all their records are acknowledged.
func (s *Source) drain(ctx context.Context, lost map[string][]int32) {
	late, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	defer context.AfterFunc(late, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.change.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, numbers := range lost {
		for _, n := range numbers {
			if p := s.parts[topicPartition{topic, n}]; p != nil {
				p.revoked = true
			}
		}
	}
	for !s.closed && late.Err() == nil && s.inFlight(lost) {
		s.change.Wait()
	}
}

// inFlight reports whether the partitions have unacknowledged records. The caller holds mu.
func (s *state) inFlight(partitions map[string][]int32) bool {
	for topic, numbers := range partitions {
		for _, n := range numbers {
			if p := s.parts[topicPartition{topic, n}]; p != nil && p.acked < p.delivered {
				return true
			}
		}
	}
	return false
}

// commitLoop commits offsets to the group, when many are due or some have been due for long.
func (s *Source) commitLoop(ctx context.Context) {
	ticker := time.NewTicker(max(s.settings.CommitOffsetsDelay, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.kick:
		}
		within, cancel := context.WithTimeout(ctx, reachTimeout)
		s.commit(within)
		cancel()
	}
}

// commit commits the offsets that the group does not have yet. A failed commit is retried with the next one: the
// position of the pipeline also has the offsets.
func (s *Source) commit(ctx context.Context) {
	offsets := s.toCommit()
	if len(offsets) == 0 {
		return
	}
	s.client.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil || resp == nil {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, t := range resp.Topics {
				for _, answer := range t.Partitions {
					p := s.parts[topicPartition{t.Topic, answer.Partition}]
					if p != nil && answer.ErrorCode == 0 {
						p.committed = max(p.committed, offsets[t.Topic][answer.Partition].Offset)
					}
				}
			}
		})
}

func (s *state) toCommit() map[string]map[int32]kgo.EpochOffset {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncommitted = 0
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for tp, p := range s.parts {
		settled := p.settled()
		if !p.assigned || settled <= p.committed {
			continue
		}
		if offsets[tp.topic] == nil {
			offsets[tp.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[tp.topic][tp.number] = kgo.EpochOffset{Epoch: p.epoch, Offset: settled}
	}
	return offsets
}

// assignments returns copies of the assigned partitions.
func (s *state) assignments() map[topicPartition]partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[topicPartition]partition, len(s.parts))
	for tp, p := range s.parts {
		if p.assigned {
			all[tp] = *p
		}
	}
	return all
}
