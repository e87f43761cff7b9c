package endurance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestValidationIsBounded has a connector be checked with thousands of settings that are all
// wrong, secret ones among them.
func TestValidationIsBounded(t *testing.T) {
	load.Parallel(t, load.Agent)
	a := agenttest.Start(t, "")
	c := &client.Client{URL: "http://" + a.Address()}
	settings := map[string]string{}
	count, limit := 4000, 30*time.Second // quadratic work takes 45 s, and four times as long for twice as many
	if os.Getenv("CI") != "" {
		count, limit = 8000, time.Minute
	}
	for i := range count {
		settings[fmt.Sprintf("raet.%d.password", i)] = fmt.Sprintf("wrong-%d-value", i)
	}
	began := time.Now()
	err := c.ValidateConnector(t.Context(), rest.Validation{Type: rest.TypeSource, Plugin: "generator", Config: rest.ConnectorConfig{Settings: settings}})
	took := time.Since(began)
	var e *rest.Error
	if !errors.As(err, &e) || len(e.Violations) == 0 || len(e.Violations) > 101 || strings.Contains(fmt.Sprint(e, e.Violations), "wrong-") {
		t.Errorf("%.300v", err)
	}
	if took > wait.Within(limit, wait.Limit) {
		t.Errorf("took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.ValidateConnector(ctx, rest.Validation{Type: rest.TypeSource, Plugin: "generator", Config: rest.ConnectorConfig{Settings: settings}}); err == nil {
		t.Error("a client that leaves gets an answer")
	}
}
