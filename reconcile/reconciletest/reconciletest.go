// Package reconciletest has the common parts of tests of the reconciler: a policy, and parts of fake stores of
// declarations.
package reconciletest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/spec"
)

// Policy returns a policy with times as in an agent.
func Policy() plan.Policy {
	return plan.Policy{
		Probation:     5 * time.Second,
		DeletionGrace: 10 * time.Second,
		CleanupDelay:  10 * time.Minute,
		DrainTimeout:  30 * time.Second,

		MaxChanges:    plan.MaxChanges,
		ChangesWindow: plan.ChangesWindow,

		Recovery: plan.Recovery{
			MinDelay:         time.Second,
			MaxDelay:         10 * time.Minute,
			BackoffFactor:    2,
			MaxRetries:       -1,
			MaxRetriesWindow: 5 * time.Minute,
		},
	}
}

// Values returns the rows in the order of their keys.
func Values[V any](rows map[string]V) (list []V) {
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		list = append(list, rows[k])
	}
	return list
}

// Delta returns the changes since a revision of a table. Each id in changed stands for a row that was changed or
// deleted in a revision, from revision 2 on.
func Delta[V any](rows map[string]V, changed []string, revision int64) spec.Delta[V] {
	d := spec.Delta[V]{Revision: int64(len(changed)) + 1, All: revision == 0}
	ids := slices.Collect(maps.Keys(rows))
	if !d.All {
		ids = slices.Clone(changed[revision-1:])
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if now, ok := rows[id]; ok {
			d.Rows = append(d.Rows, &now)
		} else {
			d.Gone = append(d.Gone, id)
		}
	}
	return d
}

// Apply changes declarations as a store does at this time, and returns the ids of the changed ones. It fails when a
// pipeline to withdraw is not declared, or is withdrawn already.
func Apply(
	declared map[string]spec.Declaration, c *spec.Changes, digest func(*spec.Pipeline) string, at time.Time,
) (changed []string, err error) {
	for _, d := range c.Declare {
		now := declared[d.Pipeline.ID]
		now.Pipeline, now.Owner, now.Withdrawn, now.Purge = d.Pipeline, d.Owner, time.Time{}, false
		if sum := digest(&d.Pipeline); sum != now.Digest {
			now.Digest, now.Override = sum, ""
			now.Generation++
		}
		declared[d.Pipeline.ID] = now
		changed = append(changed, d.Pipeline.ID)
	}
	for _, w := range c.Withdraw {
		now, ok := declared[w.ID]
		if !ok || !now.Withdrawn.IsZero() && !w.Purge {
			return changed, fmt.Errorf("cannot withdraw %q: it is not declared", w.ID)
		}
		now.Withdrawn, now.Purge = at.Round(0), w.Purge
		declared[w.ID] = now
		changed = append(changed, w.ID)
	}
	return changed, nil
}

// Store is a fake store for Declare and Withdraw.
type Store interface {
	Apply(ctx context.Context, c *spec.Changes) error
}

// Declare declares pipelines of the API. It panics when the store fails.
func Declare(s Store, ps ...spec.Pipeline) {
	c := &spec.Changes{}
	for _, p := range ps {
		c.Declare = append(c.Declare, spec.Declare{Pipeline: p, Owner: spec.Owner{Kind: spec.OwnerAPI}})
	}
	apply(s, c)
}

// Withdraw withdraws a pipeline. It panics when the store fails.
func Withdraw(s Store, id string, purge bool) {
	apply(s, &spec.Changes{Withdraw: []spec.Withdraw{{ID: id, Purge: purge}}})
}

func apply(s Store, c *spec.Changes) {
	if err := s.Apply(context.Background(), c); err != nil {
		panic(err)
	}
}
