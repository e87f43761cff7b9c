package member_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/member"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// needs returns the Needs of an agent with its own store.
func needs(t *testing.T, c config.Cluster) clustering.Needs {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "conduit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return clustering.Needs{
		Settings: c, Log: slog.New(slog.DiscardHandler), Store: db, DeadLetters: &deadletter.Store{},
		Schemas: member.Schemas(c, db.Schemas()),
		Loop:    &reconcile.Loop{}, Moved: func() {}, Address: func() string { return "" },
		Delete: func(context.Context, *spec.ConnectorState) error { return nil },
	}
}

// kinds are the kinds of stores of the tests. No store answers.
var kinds = []member.StoreKind{
	{Product: "NATS", Setting: "cluster.nats.url", URL: func(c config.Cluster) string { return c.NATS.URL }},
	{
		Product: "PostgreSQL", Setting: "cluster.postgres.url", URL: func(c config.Cluster) string {
			return c.Postgres.URL
		},
		Open: func(config.Cluster, string, *slog.Logger) (cluster.Store, func(context.Context) error, error) {
			return silent{}, func(context.Context) error { return errSilent }, nil
		},
	},
}

var errSilent = errors.New("the store does not answer")

// silent is a store that does not answer.
type silent struct{}

// Write implements cluster.Store.
func (silent) Write(context.Context, protocol.Write) protocol.Outcome {
	return protocol.Outcome{Result: protocol.Unknown}
}

// Read implements cluster.Store.
func (silent) Read(context.Context, string) (protocol.Entry, error) {
	return protocol.Entry{}, errSilent
}

// Watch implements cluster.Store.
func (silent) Watch(context.Context, func(protocol.Entry), func()) error { return errSilent }

// TestMember checks that a member has all Parts, and runs no cluster pipeline while the store does not answer.
func TestMember(t *testing.T) {
	c := config.Cluster{Name: "shop", Member: "north", Postgres: config.Postgres{URL: "postgres://127.0.0.1:1/conduit"}}
	n := needs(t, c)
	m, err := member.New(n, kinds)
	if err != nil {
		t.Fatal(err)
	}
	parts := reflect.ValueOf(m.Overrides())
	for i := range parts.NumField() {
		if parts.Field(i).IsNil() {
			t.Errorf("a member has no %s", parts.Type().Field(i).Name)
		}
	}
	if err := m.Joined(); err == nil || !strings.Contains(err.Error(), `no session in the cluster "shop"`) {
		t.Errorf("joined: %v", err)
	}
	if !m.Overrides().OwnedElsewhere("p", false) || !m.KeepsConnectors("p") {
		t.Error("this agent runs a pipeline of which it has no claim, or cleans up after it")
	}
	if p := m.Assignment("p"); p == nil || p.Member != "" {
		t.Errorf("placement: %+v", p)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	seen, err := m.Cluster(ended)
	if err != nil || seen.Name != "shop" || seen.Member != "north" || seen.State != spec.MembershipJoining ||
		seen.Message != "PostgreSQL has not responded yet" {
		t.Errorf("got %+v, %v", seen, err)
	}
	if _, err := n.Schemas.Get(ended, "of-the-cluster", 1); err == nil ||
		!strings.Contains(err.Error(), "store of the cluster") {
		t.Errorf("a schema that only the cluster can have: %v", err)
	}
}

func TestSettings(t *testing.T) {
	for want, c := range map[string]config.Cluster{
		"are both set: a cluster has one store": {
			NATS:     config.NATS{URL: "nats://127.0.0.1:1"},
			Postgres: config.Postgres{URL: "postgres://127.0.0.1:1/conduit"},
		},
		"neither cluster.nats.url nor cluster.postgres.url is": {},
		"cluster.labels": {Labels: "site"},
	} {
		c.Name = "shop"
		if m, err := member.New(needs(t, c), kinds); m != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want an error with %q", m, err, want)
		}
	}
}
