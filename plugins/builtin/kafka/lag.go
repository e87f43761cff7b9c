package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/progress"
)

// lagEvery is the interval of requests for the ends of partitions.
const lagEvery = 10 * time.Second

// followEnds requests the ends of partitions periodically until ctx ends, even while the source reads nothing.
func (s *state) followEnds(ctx context.Context, brokers *kgo.Client, topics []string) {
	ticker := time.NewTicker(lagEvery)
	defer ticker.Stop()
	for {
		s.askEnds(ctx, brokers, topics)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *state) askEnds(ctx context.Context, brokers *kgo.Client, topics []string) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	ends, err := kadm.NewClient(brokers).ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return // Progress reports that no broker is reachable
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
	ends.Each(func(end kadm.ListedOffset) {
		if p := s.parts[topicPartition{end.Topic, end.Partition}]; p != nil && end.Err == nil {
			p.end = max(p.end, end.Offset)
		}
	})
}

// Progress reports the number of unacknowledged messages in the partitions assigned to this member of the group.
func (s *Source) Progress() progress.Report {
	var r progress.Report
	var records int64
	var newest time.Time
	parts := s.assignments()
	behind := make([]progress.Part, 0, len(parts))
	for _, p := range parts {
		n := max(0, p.end-p.settled())
		records += n
		behind = append(behind, progress.Part{Of: fmt.Sprintf("%s/%d", p.topic, p.number), Records: n})
		if p.newest.After(newest) {
			newest = p.newest
		}
	}
	s.mu.Lock()
	r.At = s.asked
	s.mu.Unlock()
	if len(parts) > 0 {
		r.Records = &records
		r.SetParts(behind)
	}
	r.SetAge(newest, len(parts) > 0 && records == 0)
	r.Skipped = s.skips.List()
	if err := s.network.failed(); err != nil {
		r.Warning = "cannot connect to a broker: " + err.Error()
	}
	return r
}
