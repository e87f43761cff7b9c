package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// reportFormat is the format of reports that this version writes, and the newest that it reads.
const reportFormat = 1

// maxReported is the maximum number of pipelines in each map of a report.
const maxReported = 1000

// minLag is the smallest lag of a claim that is reported to other members.
const minLag = time.Second

// Report is the status that a member publishes to the others. It outlives the member's session.
type Report struct {
	Format      int              `json:"format"`
	Member      string           `json:"member"`
	Address     string           `json:"address,omitempty"`     // that its API listens on
	DeadLetters map[string]int64 `json:"deadLetters,omitempty"` // number on its disk, by pipeline
	// Lags has, by claim id, the seconds for which positions of the member's pipelines have waited to be saved in their
	// claims. Lags below one second are left out.
	Lags map[string]float64 `json:"lags,omitempty"`
	At   time.Time          `json:"at"` // by the member's clock, informational
}

// Reports holds the reports of all members. Set Store, then pass entries to Note.
type Reports struct {
	Store Store

	mu    sync.Mutex
	known map[string]noted // guarded by mu: by member
}

// noted is the latest report seen in the store.
type noted struct {
	Report
	revision uint64
}

// Note records an entry of the store. It reports whether the entry is a report.
func (r *Reports) Note(e protocol.Entry) bool {
	if !strings.HasPrefix(e.Key, protocol.ReportPrefix) {
		return false
	}
	n := noted{revision: e.Revision}
	if json.Unmarshal(e.Value, &n.Report) != nil || n.Format > reportFormat {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]noted{}
	}
	if e.Revision > r.known[n.Member].revision {
		r.known[n.Member] = n
	}
	return true
}

// All returns the reports, in the order of the members' names.
func (r *Reports) All() (all []Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, member := range slices.Sorted(maps.Keys(r.known)) {
		all = append(all, r.known[member].Report)
	}
	return all
}

// Publish replaces the report of a member, unless the present one is equal. When it fails it may take effect
// nevertheless. Beyond 1,000 pipelines, those with the fewest dead letters, or the smallest lags, are left out.
func (r *Reports) Publish(ctx context.Context, n Report) error {
	n.Format = reportFormat
	n.DeadLetters, n.Lags = greatest(n.DeadLetters), greatest(n.Lags)
	change := func(e *protocol.Entry) (done bool, err error) {
		var present Report
		if json.Unmarshal(e.Value, &present) == nil && present.Address == n.Address &&
			maps.Equal(present.DeadLetters, n.DeadLetters) && maps.Equal(present.Lags, n.Lags) {
			return true, nil
		}
		e.Value, err = json.Marshal(&n)
		return false, err
	}
	key := protocol.ReportKey(n.Member)
	done, err := trySwap(ctx, r.Store, key, change, func(e protocol.Entry) { r.Note(e) })
	if err == nil && !done {
		return errUnreachable
	}
	return err
}

// greatest returns the maxReported largest values.
func greatest[V cmp.Ordered](all map[string]V) map[string]V {
	if len(all) <= maxReported {
		return all
	}
	ids := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(all[b], all[a]) })
	all = maps.Clone(all)
	for _, id := range ids[maxReported:] {
		delete(all, id)
	}
	return all
}

// Lags returns, by claim id, the seconds for which positions have waited to be saved in the claims that a member owns,
// for its report. It is empty for a member that does not take part yet.
func Lags(ctx context.Context, m *Member) map[string]float64 {
	lags := map[string]float64{}
	if m.Stats(ctx).Lag < minLag { // usual case, without a look at every claim
		return lags
	}
	v, err := m.View(ctx)
	if err != nil {
		return lags
	}
	for i := range v.Claims {
		if c := &v.Claims[i]; c.Owner == m.Self.Agent && c.Pending >= minLag {
			lags[c.Pipeline] = c.Pending.Truncate(minLag).Seconds()
		}
	}
	return lags
}
