package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// versionFormat is the record format that this version writes, and the newest that it reads.
const versionFormat = 1

const (
	maxError       = 1000            // bytes of the error of a failed version
	readTries      = 3               // attempts to read a record before a pipeline is given up
	versionTimeout = 2 * time.Second // for one read
	swapWithin     = 10 * time.Second
)

// versionRecord describes the versions of a pipeline, or of an instance, in the store. The state of the entry is the
// last known good version.
type versionRecord struct {
	Format     int            `json:"format"`
	ID         string         `json:"id"`              // of the claim
	Stamp      string         `json:"stamp,omitempty"` // random: unique per write
	Epoch      uint64         `json:"epoch,omitempty"` // of the owner that wrote it
	Member     string         `json:"member,omitempty"`
	At         time.Time      `json:"at,omitzero"`          // by the clock of Member, informational
	Good       string         `json:"good,omitempty"`       // digest of the last known good version, or ""
	Generation int64          `json:"generation,omitempty"` // generation of Good, as Member counts
	Failed     *FailedVersion `json:"failed,omitempty"`     // the failed version that Good runs in place of
}

// FailedVersion is a version that failed during probation.
type FailedVersion struct {
	Digest     string    `json:"digest"`     // spec.RunDigest
	Generation int64     `json:"generation"` // as Member counts
	Member     string    `json:"member"`     // on which it failed
	At         time.Time `json:"at"`         // by the clock of Member, informational
	Error      string    `json:"error"`
}

// LocalVersions is an agent's own store.
type LocalVersions interface {
	Get(ctx context.Context, id string) (spec.Declaration, error)
	History(ctx context.Context, id string) ([]spec.Revision, error)
	RaiseGeneration(ctx context.Context, id string, least int64) error
}

// VersionLoop runs the pipelines of the agent.
type VersionLoop interface {
	Inherit(ctx context.Context, id string, t reconcile.VersionOutcome) error
}

// Versions tracks the versions of all pipelines of the cluster for one member. Set the exported fields, pass entries of
// the store to Note, and call Run.
type Versions struct {
	Member string // name of this agent
	Store  Store
	Local  LocalVersions
	Loop   VersionLoop
	Log    *slog.Logger
	// Owner returns this agent's claim of a pipeline and its epoch; ok is false if it has none.
	Owner func(pipeline string) (claim string, epoch uint64, ok bool)

	once    sync.Once
	pending *notify.Queue[reconcile.VersionOutcome] // to be published, by pipeline
	mu      sync.Mutex
	known   map[string]notedVersion // guarded by mu: by claim id
}

// notedVersion is the latest record seen in the store.
type notedVersion struct {
	versionRecord
	revision uint64
}

func (s *Versions) init() {
	s.once.Do(func() {
		s.known, s.pending = map[string]notedVersion{}, notify.NewQueue[reconcile.VersionOutcome]()
	})
}

// Note implements cluster.Noter.
func (s *Versions) Note(e protocol.Entry) bool {
	if !strings.HasPrefix(e.Key, protocol.VersionsPrefix) {
		return false
	}
	s.init()
	n := notedVersion{revision: e.Revision}
	if json.Unmarshal(e.Value, &n.versionRecord) != nil || n.Format > versionFormat {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Revision > s.known[n.ID].revision {
		s.known[n.ID] = n
	}
	return true
}

// Failed returns the failed version that the last known good version runs in place of. id is the claim id of a pipeline
// or an instance. Failed returns nil if there is none, or if this agent has another version declared.
func (s *Versions) Failed(ctx context.Context, id string) *FailedVersion {
	f := s.record(id).Failed
	if f == nil {
		return nil
	}
	pipeline, _ := protocol.InstanceOf(id)
	if d, err := s.Local.Get(ctx, pipeline); err == nil && spec.RunDigest(&d.Pipeline) != f.Digest {
		return nil
	}
	return f
}

func (s *Versions) record(id string) versionRecord {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id].versionRecord
}

// Record queues the result of a version from this agent's reconcile loop, to be published while the agent owns the
// pipeline. It does not block.
func (s *Versions) Record(pipeline string, t reconcile.VersionOutcome) {
	s.init()
	s.pending.Put(pipeline, t)
}

// Run publishes queued results until ctx ends.
func (s *Versions) Run(ctx context.Context) {
	s.init()
	fails := &notify.Throttle{Fails: "cannot publish the last known good versions of pipelines to the cluster, " +
		"trying again",
		Recovered: "the last known good versions of pipelines can be published to the cluster again"}
	s.pending.Run(ctx, s.Log.With("component", "cluster"), fails, s.publish)
}

// publish replaces the record of a pipeline that this agent owns, unless the present one is equal or was written by a
// later owner.
func (s *Versions) publish(ctx context.Context, pipeline string, t reconcile.VersionOutcome) error {
	claim, epoch, owned := s.Owner(pipeline)
	if !owned || t.Good == nil {
		return nil
	}
	r := s.recordOf(claim, epoch, t)
	if known := s.record(r.ID); known.Good == r.Good && known.Failed.same(r.Failed) {
		return nil
	}
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("cannot encode the states of the versions of pipeline %q: %w", pipeline, err)
	}
	good, err := json.Marshal(&t.Good.Pipeline)
	if err != nil {
		return fmt.Errorf("cannot encode the last known good version of pipeline %q: %w", pipeline, err)
	}
	ctx, cancel := context.WithTimeout(ctx, swapWithin)
	defer cancel()
	err = Swap(ctx, s.Store, protocol.VersionsKey(r.ID), func(e *protocol.Entry) (done bool, err error) {
		var present versionRecord
		there := json.Unmarshal(e.Value, &present) == nil
		// Done by an earlier attempt, or superseded by a newer version of the agent or a later owner.
		done = there && (present.Stamp == r.Stamp || present.Format > versionFormat || present.Epoch > r.Epoch)
		if !done {
			e.Value, e.State = value, good
		}
		return done, nil
	}, func(e protocol.Entry) { s.Note(e) })
	if err != nil {
		return fmt.Errorf("cannot publish the last known good version of pipeline %q: %w", pipeline, err)
	}
	return nil
}

func (s *Versions) recordOf(id string, epoch uint64, t reconcile.VersionOutcome) versionRecord {
	r := versionRecord{
		Format: versionFormat, ID: id, Stamp: rand.Text(), Epoch: epoch, Member: s.Member, At: time.Now(),
		Good: spec.RunDigest(&t.Good.Pipeline), Generation: t.Good.Generation,
	}
	f := t.Failed
	if f == nil {
		return r
	}
	r.Failed = &FailedVersion{Digest: f.RunDigest, Generation: f.Generation, Member: s.Member, At: f.At,
		Error: strings.ToValidUTF8(f.Error[:min(len(f.Error), maxError)], "")}
	// A version that failed on another member keeps that member's record.
	if known := s.record(id).Failed; known != nil && known.Digest == f.RunDigest && known.At.Equal(f.At) {
		r.Failed = known
	}
	return r
}

// same reports whether f and o describe the same attempt.
func (f *FailedVersion) same(o *FailedVersion) bool {
	if f == nil || o == nil {
		return f == o
	}
	return f.Digest == o.Digest && f.At.Equal(o.At)
}

// Inherit passes the versions that the last owner tried to the reconcile loop. The agent must own the claim and not run
// the pipeline yet. The local generations keep the order of the last owner: the failed version has a greater generation
// than the good one.
func (s *Versions) Inherit(ctx context.Context, id string) error {
	e, err := s.read(ctx, protocol.VersionsKey(id))
	if err != nil {
		return fmt.Errorf("cannot read the state of the versions of a pipeline: %w", err)
	}
	var r versionRecord
	if e.Value == nil || json.Unmarshal(e.Value, &r) != nil || r.Format > versionFormat || r.Good == "" {
		return nil
	}
	s.Note(e)
	good := spec.LastGood{Generation: r.Generation}
	if err := json.Unmarshal(e.State, &good.Pipeline); err != nil {
		return fmt.Errorf("cannot read the last known good version of a pipeline: %w", err)
	}
	pipeline, _ := protocol.InstanceOf(id)
	if good.Generation, err = s.number(ctx, pipeline, &r); err != nil {
		return err
	}
	t := reconcile.VersionOutcome{Good: &good}
	if f := r.Failed; f != nil {
		t.Failed = &reconcile.FailedVersion{RunDigest: f.Digest,
			Attempt: spec.Attempt{Generation: f.Generation, At: f.At, Error: f.Error}}
		if f.Member != s.Member {
			t.Failed.Error = fmt.Sprintf("on the member %s of the cluster: %s", f.Member, f.Error)
		}
	}
	return s.Loop.Inherit(ctx, pipeline, t)
}

func (s *Versions) read(ctx context.Context, key string) (e protocol.Entry, err error) {
	for range readTries {
		try, cancel := context.WithTimeout(ctx, versionTimeout)
		e, err = s.Store.Read(try, key)
		cancel()
		if err == nil || ctx.Err() != nil {
			return e, err
		}
	}
	return e, err
}

// number returns this agent's generation of the last known good version. A version that this agent never had declared
// gets the generation of the member that ran it, and the declared version a greater one.
func (s *Versions) number(ctx context.Context, pipeline string, r *versionRecord) (int64, error) {
	d, err := s.Local.Get(ctx, pipeline)
	if err != nil {
		return 0, err
	}
	declared := spec.RunDigest(&d.Pipeline)
	if declared == r.Good {
		return d.Generation, nil
	}
	least := d.Generation
	if r.Failed != nil && r.Failed.Digest == declared {
		least = max(least, r.Failed.Generation)
	}
	revisions, err := s.Local.History(ctx, pipeline)
	if err != nil {
		return 0, err
	}
	number := int64(0)
	for i := range revisions {
		if v := &revisions[i]; v.Spec != nil && v.Generation < d.Generation && spec.RunDigest(v.Spec) == r.Good {
			number = v.Generation
		}
	}
	number = cmp.Or(number, r.Generation)
	if least = max(least, number+1); least == d.Generation {
		return number, nil
	}
	return number, s.Local.RaiseGeneration(ctx, pipeline, least)
}
