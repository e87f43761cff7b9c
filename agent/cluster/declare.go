package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/spec"
)

// declareTimeout bounds one change of the declarations of the cluster.
const declareTimeout = 10 * time.Second

// declarationChange is one change of the declarations of the cluster.
type declarationChange struct {
	id      string
	have    ownDeclaration // in the store of this agent when the change was made: nothing else may be replaced
	record  declarationRecord
	state   []byte
	changes spec.Changes // to the store of this agent
}

// ApplyIf implements the contract of desired.Store. Declarations of the API that are not local go to the store of the
// cluster first, one pipeline after another. The other changes go to the store of this agent, last. ApplyIf returns
// spec.ErrConflict when another member was faster; the store of this agent then has the other member's declaration.
func (s *Declarations) ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error {
	has := map[string]ownDeclaration{}
	rest, all, err := s.divide(ctx, c, has)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return s.Store.ApplyIf(ctx, c, expect)
	}
	left := map[string]string{}
	for id, version := range expect {
		d, err := s.snapshot(ctx, id, has)
		if err != nil {
			return err
		}
		if d.live && version != d.Version() || !d.live && version != "" {
			return fmt.Errorf("pipeline %q: %w", id, spec.ErrConflict)
		}
		left[id] = version
	}
	for i := range all {
		if err := s.publish(ctx, &all[i]); err != nil {
			return err
		}
		delete(left, all[i].id)
	}
	return s.Store.ApplyIf(context.WithoutCancel(ctx), rest, left)
}

// snapshot returns own(id), read once per change and cached in has.
func (s *Declarations) snapshot(ctx context.Context, id string, has map[string]ownDeclaration) (ownDeclaration, error) {
	have, known := has[id]
	if known {
		return have, nil
	}
	have, err := s.own(ctx, id)
	has[id] = have
	return have, err
}

// divide separates the changes of cluster pipelines, all, from the rest. It caches the declarations of this agent in
// has.
func (s *Declarations) divide(
	ctx context.Context, c *spec.Changes, has map[string]ownDeclaration,
) (rest *spec.Changes, all []declarationChange, err error) {
	rest = &spec.Changes{Files: c.Files, Forget: c.Forget, Events: c.Events}
	for _, d := range c.Declare {
		have, err := s.snapshot(ctx, d.Pipeline.ID, has)
		if err != nil {
			return nil, nil, err
		}
		one, err := s.declare(d, have)
		if err != nil {
			return nil, nil, err
		}
		if one == nil {
			rest.Declare = append(rest.Declare, d)
			continue
		}
		all = append(all, *one)
	}
	for _, w := range c.Withdraw {
		have, err := s.snapshot(ctx, w.ID, has)
		if err != nil {
			return nil, nil, err
		}
		if have.Declaration == nil || !have.shared || !have.live {
			rest.Withdraw = append(rest.Withdraw, w)
			continue
		}
		one := declarationChange{id: w.ID, have: have, record: s.recordOf(w.ID, w.Origin),
			changes: spec.Changes{Withdraw: []spec.Withdraw{w}}}
		one.record.Deleted, one.record.Files = true, !w.Purge
		all = append(all, one)
	}
	return rest, all, nil
}

// declare returns the change of the cluster's declarations that d makes, or nil if it makes none.
func (s *Declarations) declare(d spec.Declare, have ownDeclaration) (*declarationChange, error) {
	one := &declarationChange{id: d.Pipeline.ID, have: have, record: s.recordOf(d.Pipeline.ID, d.Origin)}
	was := have.Declaration != nil && have.live && have.shared
	if d.Owner.Kind == spec.OwnerFile {
		one.record.Deleted, one.record.Files = true, true
		one.changes.Declare = []spec.Declare{d}
		if !was {
			return nil, nil
		}
		return one, nil
	}
	d.Owner = owner
	local := PlacementOf(&spec.Declaration{Pipeline: d.Pipeline, Owner: d.Owner})
	switch {
	case local.Local() && was:
		return nil, &spec.Error{Kind: spec.ErrPrecondition, Code: spec.CodeInvalid, Message: fmt.Sprintf(
			"pipeline %q is declared for all members of the cluster and cannot become local to this member: %s",
			one.id, local.Reason),
			Suggestion: "import the whole pipeline under another id, which makes it local to this member"}
	case local.Local(), have.live && have.Owner.Kind == spec.OwnerAPI && !was:
		return nil, nil // the pipeline is, or stays, private to this agent
	}
	if wrong := Problems(&d.Pipeline); len(wrong) > 0 {
		return nil, &spec.Error{Kind: spec.ErrPrecondition, Code: spec.CodeInvalid, Message: wrong[0].Message,
			Suggestion: "import the whole pipeline from a file that contains it"}
	}
	state, err := json.Marshal(&d.Pipeline)
	if err != nil {
		return nil, fmt.Errorf("cannot encode pipeline %q: %w", one.id, err)
	}
	one.record.Content, one.record.Adopted, one.state = contentOf(&d.Pipeline), have.live &&
		have.Owner.Kind == spec.OwnerFile, state
	one.changes.Declare = []spec.Declare{d}
	return one, nil
}

// publish writes a change to the store of the cluster, and then to the store of this agent.
func (s *Declarations) publish(ctx context.Context, c *declarationChange) error {
	try, cancel := context.WithTimeout(ctx, declareTimeout)
	defer cancel()
	var there protocol.Entry // a concurrent declaration of another member
	var written uint64
	swap := Swap
	if c.record.Deleted {
		swap = forgetting
	}
	err := swap(try, s.Member.Store, protocol.DeclaredKey(c.id), func(e *protocol.Entry) (done bool, err error) {
		var present declarationRecord
		_ = json.Unmarshal(e.Value, &present) // the record may be missing or empty
		if present.Stamp == c.record.Stamp {
			return true, nil // by an earlier attempt
		}
		if err := s.mayReplace(try, c, &present, e.State); err != nil {
			there = *e
			return false, err
		}
		c.record.Adopted = c.record.Adopted || !c.record.Deleted && !present.Deleted && present.Adopted
		e.State = c.state
		e.Value, err = json.Marshal(&c.record)
		return false, err
	}, func(e protocol.Entry) { written = e.Revision; s.Note(e) })
	refused := new(spec.Error)
	switch {
	case err == nil:
		return s.keep(context.WithoutCancel(ctx), c, written)
	case errors.Is(err, spec.ErrConflict):
		if err := s.take(context.WithoutCancel(ctx), c.id, there); err != nil {
			return unavailable(c.id, err)
		}
		return err
	case errors.As(err, &refused):
		return refused
	}
	return unavailable(c.id, err)
}

func unavailable(id string, err error) error {
	return &spec.Error{Kind: spec.ErrUnavailable, Code: spec.CodeCluster,
		Message: fmt.Sprintf("cannot change pipeline %q for the cluster: %v", id, err),
		Suggestion: "try again when the store of the cluster can be reached; the change may have taken effect " +
			"already"}
}

// keep applies a change of this agent to its store, unless another member was faster with the next change; Run applies
// that.
func (s *Declarations) keep(ctx context.Context, c *declarationChange, revision uint64) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	newer := s.known[c.id].revision > revision
	s.mu.Unlock()
	if newer {
		return nil
	}
	return s.Store.Apply(ctx, &c.changes)
}

// forgetting is Swap with writes that expire after deletionMemory.
func forgetting(
	ctx context.Context, store Store, key string, change func(*protocol.Entry) (bool, error),
	swapped func(protocol.Entry),
) error {
	return Swap(ctx, expiring{store}, key, change, swapped)
}

// expiring is a store whose writes expire after deletionMemory.
type expiring struct{ Store }

// Write implements cluster.Store.
func (s expiring) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	w.TTL = deletionMemory
	return s.Store.Write(ctx, w)
}

// mayReplace returns an error if a change may not replace the record present. It returns spec.ErrConflict if the change
// was based on another version.
func (s *Declarations) mayReplace(
	ctx context.Context, c *declarationChange, present *declarationRecord, state []byte,
) error {
	if present.Format > declarationFormat {
		return errNewer
	}
	if err := present.read(state); err != nil {
		return err
	}
	have := c.have
	live := present.ID != "" && !present.Deleted
	if live && !have.follows(present) || !live && have.shared && have.live {
		return spec.ErrConflict
	}
	if live || have.live { // its own, or adopted from a file
		return nil
	}
	return s.vacant(ctx, c.id, present)
}

// vacant returns an error if an id without a declaration, of the API or of this agent, is nevertheless in use: by a
// pipeline in a file of another member, or by one whose deletion is still in progress. The claim shows both.
func (s *Declarations) vacant(ctx context.Context, id string, present *declarationRecord) error {
	e, err := s.Member.Store.Read(ctx, protocol.ClaimKey(id))
	if err != nil {
		return err
	}
	var claim protocol.Claim
	if e.Value == nil || json.Unmarshal(e.Value, &claim) == nil && claim.Deleted {
		return nil
	}
	if claim.Withdrawn != "" || claim.Retiring || present.Deleted && !present.Files {
		return &spec.Error{Kind: spec.ErrBusy, Code: spec.CodePipelineDeleting, Message: fmt.Sprintf(
			"pipeline %q was deleted, and the cluster keeps its claim until its connectors are cleaned up", id),
			Suggestion: "try again when conduit cluster status no longer shows it, or choose another id"}
	}
	return &spec.Error{Kind: spec.ErrExists, Code: spec.CodePipelineExists, Pipeline: id, Message: fmt.Sprintf(
		"a member of the cluster declares pipeline %q in a file that this member does not have", id),
		Suggestion: "choose another id; conduit cluster status shows which member runs it"}
}
