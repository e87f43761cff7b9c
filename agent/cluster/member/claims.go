package member

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/config"
)

// StoreKind is a kind of store that can hold the sessions and claims of a cluster.
type StoreKind struct {
	Product string // for messages
	Setting string // the setting with the address of the store
	URL     func(config.Cluster) string
	// Open opens the store, which need not answer yet. member is the name of this agent. ready prepares the store, and
	// fails until it answers.
	Open func(c config.Cluster, member string, log *slog.Logger) (s cluster.Store, ready func(context.Context) error,
		err error)
	// Check returns nil if the store answers and can hold claims, and otherwise the reason.
	Check func(ctx context.Context, c config.Cluster) error
}

// kindOf returns the kind of the store in the settings of a cluster.
func kindOf(c config.Cluster, kinds []StoreKind) (StoreKind, error) {
	var found []StoreKind
	settings := ""
	for i, k := range kinds {
		if i > 0 {
			settings += " nor "
		}
		settings += k.Setting
		if k.URL(c) != "" {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return StoreKind{}, fmt.Errorf("cluster.name is set, but neither %s is: members of a cluster need the "+
			"address of a store", settings)
	}
	return StoreKind{}, fmt.Errorf("%s and %s are both set: a cluster has one store, so remove one of them",
		found[0].Setting, found[1].Setting)
}

// Cluster returns the clusters of a binary that can use these kinds of stores.
func Cluster(kinds []StoreKind) *clustering.Cluster {
	return &clustering.Cluster{
		Join: func(n clustering.Needs) (clustering.Member, clustering.Overrides, error) {
			m, err := New(n, kinds)
			if err != nil {
				return nil, clustering.Overrides{}, err
			}
			return m, m.overrides, nil
		},
		Schemas: Schemas,
		InFile:  cluster.ProblemsInFile,
		Check: func(ctx context.Context, c config.Cluster) (product string, err error) {
			kind, err := kindOf(c, kinds)
			if err != nil {
				return "", err
			}
			return kind.Product, kind.Check(ctx, c)
		},
	}
}

// claimStore is the store of the sessions and claims of a cluster.
type claimStore struct {
	cluster.Store
	product string                          // product name, informational
	ready   func(ctx context.Context) error // prepares the store, once it answers
}

// openClaims opens the store named in the settings.
func openClaims(kinds []StoreKind, c config.Cluster, member string, log *slog.Logger) (claimStore, error) {
	kind, err := kindOf(c, kinds)
	if err != nil {
		return claimStore{}, err
	}
	s, ready, err := kind.Open(c, member, log)
	return claimStore{s, kind.Product, ready}, err
}
