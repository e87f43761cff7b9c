package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// declarationFormat is the record format that this version writes, and the newest that it reads.
const declarationFormat = 1

// deletionMemory is the time that the deletion of a pipeline is remembered. A member that was away for longer brings
// the pipeline back.
const deletionMemory = 365 * 24 * time.Hour

const (
	readTimeout = 2 * time.Second
)

// declarationRecord is the value of a key. The state of the entry is the pipeline; a deleted pipeline has no state.
type declarationRecord struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Stamp   string    `json:"stamp"`             // random: unique per write
	Content string    `json:"content,omitempty"` // hash of the state
	Member  string    `json:"member"`            // whose API declared it
	At      time.Time `json:"at"`                // by the clock of Member, informational
	Origin  string    `json:"origin,omitempty"`  // for the history
	Adopted bool      `json:"adopted,omitempty"` // taken over from the files of all members
	Deleted bool      `json:"deleted,omitempty"`
	Files   bool      `json:"files,omitempty"` // with Deleted: handed over to the files of all members
}

// DeclarationStore is an agent's own store.
type DeclarationStore interface {
	Get(ctx context.Context, id string) (spec.Declaration, error)
	Apply(ctx context.Context, c *spec.Changes) error
	ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error
}

// Declarations synchronizes the declarations in the store of the cluster with the store of this agent. Set the exported
// fields, pass entries of the cluster store to Note, and call Run.
type Declarations struct {
	Member *Member
	Store  DeclarationStore
	Log    *slog.Logger
	// Changed is called when the set of ids for which Taken returns true changes. It must not block.
	Changed func()

	once   sync.Once
	behind *notify.Queue[struct{}] // pipelines whose version in the store of this agent may be out of date
	mu     sync.Mutex
	known  map[string]notedDeclaration // guarded by mu: by pipeline
	taken  map[string]bool             // ids for which this agent has a different pipeline

	applying sync.Mutex // held while a change is applied to the store of this agent
}

// notedDeclaration is the latest record seen in the store.
type notedDeclaration struct {
	declarationRecord
	revision uint64
}

func (s *Declarations) init() {
	s.once.Do(func() {
		s.known, s.behind, s.taken = map[string]notedDeclaration{}, notify.NewQueue[struct{}](), map[string]bool{}
	})
}

// Note implements cluster.Noter.
func (s *Declarations) Note(e protocol.Entry) bool {
	if !strings.HasPrefix(e.Key, protocol.DeclaredPrefix) {
		return false
	}
	s.init()
	n := notedDeclaration{revision: e.Revision}
	if json.Unmarshal(e.Value, &n.declarationRecord) != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Revision > s.known[n.ID].revision {
		s.known[n.ID] = n
		s.behind.Put(n.ID, struct{}{})
	}
	return true
}

// Taken reports whether this agent uses id for a pipeline other than the cluster's: from a file, or declared by its API
// for this agent only.
func (s *Declarations) Taken(id string) bool {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[id]
}

// Recheck examines the taken ids again after the declarations of this agent changed. It does not block.
func (s *Declarations) Recheck() {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.taken {
		s.behind.Put(id, struct{}{})
	}
}

// Run applies declarations of other members to the store of this agent until ctx ends.
func (s *Declarations) Run(ctx context.Context) {
	s.init()
	fails := &notify.Throttle{Fails: "cannot apply a declaration of another member of the cluster, trying again",
		Recovered: "declarations of other members of the cluster can be applied again"}
	s.behind.Run(ctx, s.Log.With("component", "cluster"), fails, s.follow)
}

// follow applies the latest record of a pipeline to the store of this agent, unless that follows it already.
func (s *Declarations) follow(ctx context.Context, id string, _ struct{}) error {
	s.mu.Lock()
	n := s.known[id]
	s.mu.Unlock()
	have, err := s.own(ctx, id)
	if err != nil || have.follows(&n.declarationRecord) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	e, err := s.Member.Store.Read(ctx, protocol.DeclaredKey(id))
	if err != nil {
		return err
	}
	return s.take(context.WithoutCancel(ctx), id, e)
}

// ownDeclaration is the declaration of a pipeline in the store of this agent.
type ownDeclaration struct {
	*spec.Declaration      // nil if there is none
	shared            bool // declared for the cluster by the API of a member
	live              bool // declared, not withdrawn
}

func (s *Declarations) own(ctx context.Context, id string) (ownDeclaration, error) {
	d, err := s.Store.Get(ctx, id)
	if errors.Is(err, spec.ErrNotFound) {
		return ownDeclaration{}, nil
	}
	return ownDeclaration{&d, IsShared(&d), d.Withdrawn.IsZero()}, err
}

// follows reports whether o matches the record r.
func (o ownDeclaration) follows(r *declarationRecord) bool {
	if r.ID == "" || r.Deleted {
		return o.Declaration == nil || !o.shared || !o.live && (r.Files || o.Purge)
	}
	return o.shared && o.live && contentOf(&o.Pipeline) == r.Content
}

// read recomputes r.Content from state in the encoding of this version. Another version may omit fields or add its own.
func (r *declarationRecord) read(state []byte) error {
	if r.ID == "" || r.Deleted {
		return nil
	}
	var p spec.Pipeline
	if err := json.Unmarshal(state, &p); err != nil {
		return fmt.Errorf("cannot read pipeline %q, which the member %s declared: %w", r.ID, r.Member, err)
	}
	r.Content = contentOf(&p)
	return nil
}

// contentOf returns a hash that identifies the content of p.
func contentOf(p *spec.Pipeline) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // JSON can encode every declaration
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

var (
	errNewer = errors.New("a newer version of conduit declared it")
	errGoing = errors.New("the clean-up after a deleted pipeline of this id is still in progress")
)

// take applies the cluster's record of a pipeline to the store of this agent.
func (s *Declarations) take(ctx context.Context, id string, e protocol.Entry) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	var r declarationRecord
	if e.Value == nil || json.Unmarshal(e.Value, &r) != nil {
		return nil
	}
	if r.Format > declarationFormat {
		return fmt.Errorf("pipeline %q: %w", id, errNewer)
	}
	have, err := s.own(ctx, id)
	if err == nil {
		err = r.read(e.State)
	}
	if err != nil {
		return err
	}
	taken := !r.Deleted && have.live && !have.shared && !(r.Adopted && have.Owner.Kind == spec.OwnerFile)
	s.keepTaken(ctx, id, &r, taken, have)
	if taken || have.follows(&r) {
		return nil
	}
	changes := &spec.Changes{}
	origin := r.Origin + " of " + r.Member
	switch {
	case r.Deleted:
		changes.Withdraw = []spec.Withdraw{{ID: id, Origin: origin, Purge: !r.Files}}
	case have.Declaration != nil && have.Purge && !have.live:
		return fmt.Errorf("pipeline %q: %w", id, errGoing)
	default:
		d := spec.Declare{Owner: owner, Origin: origin}
		if err := json.Unmarshal(e.State, &d.Pipeline); err != nil {
			return err
		}
		changes.Declare = []spec.Declare{d}
	}
	return s.Store.Apply(ctx, changes)
}

// owner is the owner of pipelines that are declared for the cluster.
var owner = spec.Owner{Kind: spec.OwnerAPI, Places: SharedPlacement}

// keepTaken records whether this agent uses the id of a pipeline of the cluster for another one. It warns once per
// change.
func (s *Declarations) keepTaken(
	ctx context.Context, id string, r *declarationRecord, taken bool, have ownDeclaration,
) {
	s.mu.Lock()
	before := s.taken[id]
	if delete(s.taken, id); taken {
		s.taken[id] = true
	}
	s.mu.Unlock()
	if before == taken {
		return
	}
	if taken {
		where := "the API of this agent"
		if have.Owner.Kind == spec.OwnerFile {
			where = have.Owner.Path
		}
		message := fmt.Sprintf("the API of the member %s declared a pipeline of this id for the cluster, but %s "+
			"declares another one: this agent does not run the pipeline of the cluster, and runs its own only if "+
			"that is local; choose another id, or delete one of them", r.Member, where)
		s.Log.Warn("two pipelines have the same id", "component", "cluster", "pipeline_id", id, "err", message)
		event := spec.Event{At: time.Now(), Pipeline: id, File: have.Owner.Path, Type: spec.EventWarning,
			Reason:  "IDTaken",
			Message: message}
		if err := s.Store.Apply(ctx, &spec.Changes{Events: []spec.Event{event}}); err != nil {
			s.Log.Warn("cannot save an event of the cluster", "component", "cluster", "err", err)
		}
	}
	s.Changed()
}

// recordOf returns the common fields of the record of a change.
func (s *Declarations) recordOf(id, origin string) declarationRecord {
	return declarationRecord{Format: declarationFormat, ID: id, Stamp: rand.Text(), Member: s.Member.Self.Agent,
		At: time.Now(), Origin: origin}
}
