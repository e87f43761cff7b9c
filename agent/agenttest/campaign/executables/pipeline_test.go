package executables_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/chaos"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/spec"
)

// plugins starts the source and the destination.
type plugins struct{ source, destination *standalone.Client }

func (p plugins) Source(ctx context.Context, _, id string) (connector.Source, error) {
	return p.source.Source(ctx, id)
}

func (p plugins) Destination(ctx context.Context, _, id string) (connector.Destination, error) {
	return p.destination.Destination(ctx, id)
}

func (plugins) ByName(plugin string) string { return plugin }

func (plugins) WithDefaults(_ string, settings map[string]string) map[string]string { return settings }

func (plugins) Processors(context.Context, string, []spec.Processor, connector.Chain) (connector.Chain, error) {
	return nil, errors.New("there are none")
}

// store keeps the position of the single source.
type store struct {
	mu    sync.Mutex
	saved spec.Checkpoint // guarded by mu
}

func (s *store) Checkpoint(context.Context, string) (*spec.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.saved
	return &c, nil
}

func (s *store) SaveCheckpoints(_ context.Context, all []spec.Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range all {
		s.saved = c
	}
	return nil
}

func (*store) BeginRun(context.Context, string) (int64, error) { return 1, nil }

func (*store) ConnectorState(context.Context, string) (*spec.ConnectorState, error) { return nil, nil }

func (*store) SaveConnectorState(context.Context, *spec.ConnectorState) error { return nil }

// TestPipelines checks that a pipeline reports the error, and saves no position of a record that the destination does
// not have.
func TestPipelines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		source, destination string
		saved               int    // at most
		want                string // error of the run; "" when it drains
	}{
		{"", "", 10, ""},
		{chaos.StopHang, "", 10, ""},
		{chaos.StopWrong, "", 10, ""},
		{chaos.EndAtStop, "", 10, ""},
		{chaos.StopIgnored, "", 100, ""}, // it may read on before its answer arrives
		{chaos.StopLate, "", 100, ""},
		{chaos.TeardownCrash, "", 10, ""},
		{"", chaos.StopHang, 10, ""},
		{"", chaos.TeardownCrash, 10, ""},
		{chaos.Crash, "", 5, "chaos at record 6"},
		{chaos.Fail, "", 5, "the database is gone"},
		{chaos.EmptyPosition, "", 4, "has no position"},
		{chaos.Malformed, "", 4, "cannot read"},
		{chaos.NotUTF8, "", 4, "connector pipe:src: cannot take record \"5\": text is not UTF-8"},
		{chaos.OpenFails, "", 0, "nothing to open"},
		{"", chaos.Crash, 0, "chaos at a batch"},
		{"", chaos.Fail, 0, "the database is gone"},
		{"", chaos.Hang, 0, "has not responded"},
		{"", chaos.NeverAck, 0, "has not responded"},
		{"", chaos.PartialAck, 9, "ended the stream"},
		{"", chaos.UnknownAck, 0, "acknowledged record"},
		{"", chaos.DuplicateAck, 9, "acknowledged"},
		{"", chaos.SurplusAck, 10, "acknowledged"},
		{"", chaos.Refuse, 0, "no"},
	}
	for _, tt := range tests {
		t.Run(tt.source+"→"+tt.destination, func(t *testing.T) {
			load.Parallel(t, 2*load.Agent)
			s := &store{}
			ackTimeout := wait.Limit
			if tt.want == "has not responded" {
				ackTimeout = 500 * time.Millisecond
			}
			err := runPipeline(t, plugins{impatient(t, tt.source), impatient(t, tt.destination)}, ackTimeout, s,
				tt.source,
				tt.destination, func() bool {
					c, _ := s.Checkpoint(t.Context(), "")
					return tt.want == "" && string(c.Position) == "10"
				})
			says(t, "the run", err, tt.want)
			if n, _ := strconv.Atoi(string(s.saved.Position)); n > tt.saved {
				t.Errorf("saved position %d, want at most %d", n, tt.saved)
			}
		})
	}
}

// runPipeline runs a pipeline of the source and the destination, and drains it when done returns true.
func runPipeline(t *testing.T, connectors plugins, ackTimeout time.Duration, s *store, source, destination string,
	done func() bool) error {
	t.Helper()
	ctx, log := testContext(t), slog.New(slog.DiscardHandler)
	declared := &spec.Pipeline{
		ID:              "pipe",
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "chaos", WindowSize: 1},
		Connectors: []spec.Connector{
			{ID: "src", Type: spec.TypeSource, Plugin: "chaos", Settings: map[string]string{"mode": source}},
			{ID: "dst", Type: spec.TypeDestination, Plugin: "chaos", Settings: map[string]string{"mode": destination}},
		},
	}
	committer := &engine.Committer{Store: s}
	committing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = committer.Run(committing) })
	defer func() { stop(); running.Wait() }()
	p := &engine.Pipeline{Declared: declared, Resolved: declared, Plugins: connectors, Store: s, Committer: committer,
		Window: backpressure.Default, AckTimeout: ackTimeout, Log: log,
		Recall: func(settings map[string]string) (map[string]string, []string) { return maps.Clone(settings), nil }}
	if err := p.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	drain, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- p.Run(ctx, drain, func() {}) }()
	draining := false
	var err error
	wait.For(t, "the run ends", func() bool {
		if !draining && done() {
			draining = true
			close(drain)
		}
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	if err != nil && strings.Contains(err.Error(), "invariant") {
		t.Error(err)
	}
	return err
}
