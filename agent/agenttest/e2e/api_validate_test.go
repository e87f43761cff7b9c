package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestValidationIsBounded validates a connector whose many settings are all wrong, including secrets. The time must
// grow linearly: about 8 times for eight times as many settings, where comparing each setting with every other one
// takes 64 times.
func TestValidationIsBounded(t *testing.T) { // not parallel: it measures the CPU time of the process
	a := agenttest.Start(t, "")
	c := &client.Client{URL: "http://" + a.Address()}
	validate := func(ctx context.Context, count int) error {
		settings := map[string]string{}
		for i := range count {
			settings[fmt.Sprintf("raet.%d.password", i)] = fmt.Sprintf("wrong-%d-value", i)
		}
		return c.ValidateConnector(ctx,
			rest.Validation{Type: rest.TypeSource, Plugin: "generator",
				Config: rest.ConnectorConfig{Settings: settings}})
	}
	takes := func(count int) time.Duration {
		began := cpuTime(t)
		err := validate(t.Context(), count)
		var e *rest.Error
		if !errors.As(err, &e) || len(e.Violations) == 0 || len(e.Violations) > 101 ||
			strings.Contains(fmt.Sprint(e, e.Violations), "wrong-") {
			t.Errorf("%.300v", err)
		}
		return cpuTime(t) - began
	}
	takes(250) // initializes caches
	if few, many := takes(250), takes(2000); many > 32*few {
		t.Errorf("2000 settings took %v of CPU time, 250 took %v", many, few)
	}
	wait.For(t, "a client to leave before the response", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leave := func(httptrace.WroteRequestInfo) { cancel() }
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: leave})
		return errors.Is(validate(ctx, 2000), context.Canceled)
	})
}
