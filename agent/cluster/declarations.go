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

// declarationFormat is that of the records that this version writes, and the newest that it reads.
const declarationFormat = 1

// deletionMemory is for how long it is known that a pipeline was deleted. A member that was away for longer brings it back.
const deletionMemory = 365 * 24 * time.Hour

const (
	readTimeout = 2 * time.Second
)

// declarationRecord is the value of a key. The state beside it is the pipeline, unless it is deleted.
type declarationRecord struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Stamp   string    `json:"stamp"`             // random: no two writes have the same
	Content string    `json:"content,omitempty"` // hash of the state
	Member  string    `json:"member"`            // whose API declared it
	At      time.Time `json:"at"`                // by the clock of that member, for people
	Origin  string    `json:"origin,omitempty"`  // for the history
	Adopted bool      `json:"adopted,omitempty"` // it is taken over from the files of all members
	Deleted bool      `json:"deleted,omitempty"`
	Files   bool      `json:"files,omitempty"` // with Deleted: it is handed over to the files of all members
}

// DeclarationStore is an agent's own store.
type DeclarationStore interface {
	Get(ctx context.Context, id string) (spec.Declaration, error)
	Apply(ctx context.Context, c *spec.Changes) error
	ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error
}

// Declarations keeps what is declared for the cluster and the store of this agent in line. Set the exported fields, hand it what
// the store of the cluster shows, and call Run.
type Declarations struct {
	Member *Member
	Store  DeclarationStore
	Log    *slog.Logger
	// Changed is called when it is another pipeline of which Taken returns true. It must not block.
	Changed func()

	once   sync.Once
	behind *notify.Queue[struct{}] // pipelines of which the store of this agent may have another version
	mu     sync.Mutex
	known  map[string]notedDeclaration // guarded by mu: by pipeline
	taken  map[string]bool             // guarded by mu: ids of pipelines that this agent has otherwise

	applying sync.Mutex // held while something is brought into the store of this agent
}

// notedDeclaration is a record as the store had it last.
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

// Taken reports whether this agent has a pipeline of this id in a file, or by its own API for itself, that is another one
// than the cluster's.
func (s *Declarations) Taken(id string) bool {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[id]
}

// Recheck takes that what this agent has declared changed: what was taken may be free. It does not block.
func (s *Declarations) Recheck() {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.taken {
		s.behind.Put(id, struct{}{})
	}
}

// Run brings what other members declared into the store of this agent until ctx ends.
func (s *Declarations) Run(ctx context.Context) {
	s.init()
	fails := &notify.Throttle{Fails: "cannot take over what another member of the cluster declared, trying again", Recovered: "what other members of the cluster declared is taken over again"}
	s.behind.Run(ctx, s.Log.With("component", "cluster"), fails, s.follow)
}

// follow brings one pipeline into the store of this agent, if that has another version.
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

// ownDeclaration is what this agent has of a pipeline.
type ownDeclaration struct {
	*spec.Declaration      // nil for nothing
	shared            bool // by the API of a member, for the cluster
	live              bool // it is declared
}

func (s *Declarations) own(ctx context.Context, id string) (ownDeclaration, error) {
	d, err := s.Store.Get(ctx, id)
	if errors.Is(err, spec.ErrNotFound) {
		return ownDeclaration{}, nil
	}
	return ownDeclaration{&d, IsShared(&d), d.Withdrawn.IsZero()}, err
}

// follows reports whether it is as a record says.
func (o ownDeclaration) follows(r *declarationRecord) bool {
	if r.ID == "" || r.Deleted {
		return o.Declaration == nil || !o.shared || !o.live && (r.Files || o.Purge)
	}
	return o.shared && o.live && contentOf(&o.Pipeline) == r.Content
}

// read has the content of a record be that of its state as this version writes it: another one may leave out what it does not
// know, or have more.
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

// contentOf identifies what a pipeline says.
func contentOf(p *spec.Pipeline) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // declarations consist of what JSON can say
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

var (
	errNewer = errors.New("a newer version of conduit declared it")
	errGoing = errors.New("a pipeline of this id that was deleted is still being cleaned up after")
)

// take brings what the store of the cluster has of a pipeline into that of this agent.
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

// owner is that of pipelines that are declared for the cluster.
var owner = spec.Owner{Kind: spec.OwnerAPI, Places: SharedPlacement}

// keepTaken notes whether this agent has the id of a pipeline of the cluster otherwise, and says so once.
func (s *Declarations) keepTaken(ctx context.Context, id string, r *declarationRecord, taken bool, have ownDeclaration) {
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
		where := "the API of this agent, for itself"
		if have.Owner.Kind == spec.OwnerFile {
			where = have.Owner.Path
		}
		message := fmt.Sprintf("the API of the member %s declared a pipeline of this id for the cluster, and %s has another one: this agent leaves the cluster's alone, and runs its own only if that is local; choose another id, or delete one of them", r.Member, where)
		s.Log.Warn("two pipelines have one id", "component", "cluster", "pipeline_id", id, "err", message)
		event := spec.Event{At: time.Now(), Pipeline: id, File: have.Owner.Path, Type: "warning", Reason: "IDTaken", Message: message}
		if err := s.Store.Apply(ctx, &spec.Changes{Events: []spec.Event{event}}); err != nil {
			s.Log.Warn("cannot save an event of the cluster", "component", "cluster", "err", err)
		}
	}
	s.Changed()
}

// recordOf returns what a change makes of a pipeline.
func (s *Declarations) recordOf(id, origin string) declarationRecord {
	return declarationRecord{Format: declarationFormat, ID: id, Stamp: rand.Text(), Member: s.Member.Self.Agent, At: time.Now(), Origin: origin}
}
