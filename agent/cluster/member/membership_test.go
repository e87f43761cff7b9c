//go:build !minimal && !no_cluster && !no_postgres

package member_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/cluster/member"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// needs returns the Needs of an agent with its own store.
func needs(t *testing.T, c config.Cluster) member.Needs {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "conduit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return member.Needs{
		Settings: c, Log: slog.New(slog.DiscardHandler), Store: db, DeadLetters: &deadletter.Store{}, Schemas: member.Schemas(c, db.Schemas()),
		Loop: &reconcile.Loop{}, Moved: func() {}, Address: func() string { return "" },
		Delete: func(context.Context, *spec.ConnectorState) error { return nil },
	}
}

// TestAlone checks that an agent whose settings name no cluster has a nil Membership with working methods.
func TestAlone(t *testing.T) {
	n := needs(t, config.Cluster{})
	m, err := member.New(n)
	if m != nil || err != nil {
		t.Fatalf("got %v, %v", m, err)
	}
	if own := n.Store.Schemas(); member.Schemas(n.Settings, own) != schema.Registry(own) {
		t.Error("the schemas are not the agent's own")
	}
	m.Changed()
	if err := m.Joined(); err != nil {
		t.Errorf("not joined: %v", err)
	}
	spool := &spec.Pipeline{ID: "p", Connectors: []spec.Connector{{ID: "c", Plugin: "builtin:spool"}}}
	if problems := m.Problems(spool); problems != nil {
		t.Errorf("problems: %v", problems)
	}
	if m.KeepsConnectors("p") {
		t.Error("connectors are left to the next owner")
	}
	v := member.View{Membership: m}
	if p, terms, refused := v.Placement("p"), v.Terms("p"), v.Refused("p"); p != nil || terms != nil || refused != nil {
		t.Errorf("got %v, %v, %v", p, terms, refused)
	}
	several := &spec.Declaration{Pipeline: spec.Pipeline{ID: "p", Terms: spec.Terms{Instances: "2"}}}
	if i := v.Instances(several); i == nil || i.Declared != "2" || len(i.Running) != 0 || !strings.Contains(i.Message, "this agent runs it once") {
		t.Errorf("instances: %+v", i)
	}
	if i := v.Instances(&spec.Declaration{}); i != nil {
		t.Errorf("instances of a pipeline that has one: %+v", i)
	}
	if err := member.Absent(); err != nil {
		t.Errorf("what this build has is absent: %v", err)
	}
}

// TestMember checks that a member has all Parts, and runs no cluster pipeline while the store does not answer.
func TestMember(t *testing.T) {
	c := config.Cluster{Name: "shop", Member: "north", Postgres: config.Postgres{URL: "postgres://127.0.0.1:1/conduit"}}
	n := needs(t, c)
	m, err := member.New(n)
	if err != nil {
		t.Fatal(err)
	}
	parts := reflect.ValueOf(m.Parts)
	for i := range parts.NumField() {
		if parts.Field(i).IsNil() {
			t.Errorf("a member has no %s", parts.Type().Field(i).Name)
		}
	}
	if err := m.Joined(); err == nil || !strings.Contains(err.Error(), `no session in the cluster "shop"`) {
		t.Errorf("joined: %v", err)
	}
	if !m.Elsewhere("p", false) || !m.KeepsConnectors("p") {
		t.Error("this agent runs a pipeline of which it has no claim, or cleans up after it")
	}
	v := member.View{Membership: m}
	if p := v.Placement("p"); p == nil || p.Member != "" {
		t.Errorf("placement: %+v", p)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	seen, err := v.Cluster(ended)
	if err != nil || seen.Name != "shop" || seen.Member != "north" || seen.State != rest.ClusterJoining || seen.Message != "PostgreSQL has not answered yet" {
		t.Errorf("got %+v, %v", seen, err)
	}
	if _, err := n.Schemas.Get(ended, "of-the-cluster", 1); err == nil || !strings.Contains(err.Error(), "cluster's store") {
		t.Errorf("a schema that only the cluster can have: %v", err)
	}
}

func TestSettings(t *testing.T) {
	for want, c := range map[string]config.Cluster{
		"are both set: a cluster has one store": {NATS: config.NATS{URL: "nats://127.0.0.1:1"}, Postgres: config.Postgres{URL: "postgres://127.0.0.1:1/conduit"}},
		"need the address of a store":           {},
		"cluster.labels":                        {Labels: "site"},
	} {
		c.Name = "shop"
		if m, err := member.New(needs(t, c)); m != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want an error with %q", m, err, want)
		}
	}
}
