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

// partition is one that is assigned to this member of the group.
type partition struct {
	topicPartition
	delivered int64 // offset behind the last record that Read returned
	seen      int64 // offset behind the last message that was read, with those that end transactions
	acked     int64 // offset behind the last record that was acknowledged
	committed int64 // what the group has; -1: nothing
	epoch     int32 // of the leader, at seen; -1: not known
	end       int64 // of what can be read, when that was known last
	newest    time.Time
	assigned  bool // to this member; otherwise it is kept for records that are outstanding
	revoked   bool // nothing more is read

	assignment int // how many times it was assigned
}

// settled returns the offset at which a restart goes on.
func (p *partition) settled() int64 {
	if p.acked >= p.delivered {
		return p.seen
	}
	return p.acked
}

// state is what the source knows of its partitions.
type state struct {
	resumed bool // there was a position
	whole   bool // it had the offsets of all partitions

	mu          sync.Mutex
	change      *sync.Cond                    // of acknowledgements and closed
	parts       map[topicPartition]*partition // all that were ever assigned
	next        vector                        // where partitions go on, also of those that other members have
	ids         topicIDs                      // of the topics that next is of
	first       vector                        // where those begin that have no offset; a partition made later is not in it
	uncommitted int                           // acknowledgements since the last commit
	closed      bool
	asked       time.Time // when the ends of partitions were asked for
}

func (s *state) init() {
	s.change = sync.NewCond(&s.mu)
	s.parts, s.next, s.ids, s.first = map[topicPartition]*partition{}, vector{}, topicIDs{}, vector{}
}

// acked takes note of an acknowledgement. It is called with mu held.
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

// drainTimeout bounds how long partitions that another member is to have wait for their
// records to be acknowledged. Those that are not by then are read twice.
const drainTimeout = 15 * time.Second

// revoked commits what was acknowledged of the partitions, and gives them up.
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

// drain reads nothing more of the partitions, and waits until what was read is acknowledged.
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

// inFlight reports whether records of the partitions are not acknowledged. It is called with mu held.
func (s *state) inFlight(of map[string][]int32) bool {
	for topic, numbers := range of {
		for _, n := range numbers {
			if p := s.parts[topicPartition{topic, n}]; p != nil && p.acked < p.delivered {
				return true
			}
		}
	}
	return false
}

// commitLoop commits offsets to the group when there are many, or some for long.
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

// commit commits what the group does not have yet. What cannot be committed is tried again
// with the next commit: the position of the pipeline has it.
func (s *Source) commit(ctx context.Context) {
	offsets := s.toCommit()
	if len(offsets) == 0 {
		return
	}
	s.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
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

// assignments returns copies of the partitions that are assigned.
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
