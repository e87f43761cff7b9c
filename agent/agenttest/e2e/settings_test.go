package e2e_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/reconcile/plan"
)

// Parts that are used without settings behave as with the defaults of the settings.
func TestPartsHaveTheDefaultsOfTheSettings(t *testing.T) {
	t.Parallel()
	cfg := onePipeline(t)
	ctx, end := context.WithCancel(t.Context())
	err := agent.Run(ctx, agent.Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Wired: func(a *agent.Agent) {
		end()
		if a.Loop.Policy != plan.DefaultPolicy() {
			t.Errorf("the policy is %+v, without settings %+v", a.Loop.Policy, plan.DefaultPolicy())
		}
		if a.Store.Retention != store.DefaultRetention() {
			t.Errorf("the retention is %+v, without settings %+v", a.Store.Retention, store.DefaultRetention())
		}
	}})
	if err != nil {
		t.Error(err)
	}
}
