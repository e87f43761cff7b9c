// Package api serves the REST API, the record stream of the inspector, and the endpoints for operators: health,
// readiness, metrics.
//
// A write changes desired state, in the store that the pipeline files also change, and the same reconciler acts on it.
// Reads of running pipelines return observed state, not desired state.
//
// A resource is one file with its routes and its handlers: pipelines.go, connectors.go, deadletters.go, … The list of
// all routes is in table.go. Package guard checks a request before a handler sees it.
package api

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/inspect"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Server serves the API. Set the fields before first use. A field may be nil if its comment says so, and all fields
// about pipelines may be nil while Down is set.
type Server struct {
	Desired    Store
	Parser     spec.Parser // of pipelines in requests
	Loop       Loop
	Placements Placements
	Plugins    KnownPlugins
	Taps       inspect.Taps
	Memory     inspect.Memory // limits the memory of the inspector; nil: only its own limits apply
	Answers    Answers
	// Changed returns a channel that is closed soon after the next change of any state or of desired state. Waiting
	// requests also poll from time to time.
	Changed func() <-chan struct{}
	// Position returns the position of the source with this qualified id, nil if it has none.
	Position func(ctx context.Context, connectorID string) (record.Position, error)
	// CleanUp is called after the connector was removed from its pipeline: if it was ever started, LifecycleOnDeleted
	// is called; then its state and position are forgotten.
	CleanUp func(ctx context.Context, connectorID string) error
	// PluginChanges returns the connectors and processors that a restart would start differently, or not at all.
	PluginChanges func() []spec.PluginChange
	// RetryPlugins makes the agent examine failed plugin files again, before a request starts a pipeline; nil: there
	// are none.
	RetryPlugins func()
	// Ready returns the reason why the agent is not ready: ErrStarting, or the component that is unavailable.
	Ready func(ctx context.Context) error
	// Directory returns the state of the directory of the pipeline files.
	Directory func() spec.Directory
	// Show converts a record for display in the inspector: structured data may be encoded when it passes a connector.
	// It may be called concurrently. nil: records are shown unconverted.
	Show    func(*record.Record)
	Metrics http.Handler // served at /metrics; nil: not found
	// Reload reads the pipeline files again and returns when desired state is in line with them, or the reason why it
	// is not. With prune, the absence of all files counts. nil: reloading is not available.
	Reload func(ctx context.Context, prune bool) error
	// Plan returns the changes that the pipeline files would make, as if the files of the request were saved among
	// them. It changes nothing. nil: planning is not available.
	Plan func(ctx context.Context, request spec.PlanRequest) (*spec.Plan, error)
	// WriteFile replaces the declaration in the file of the owner by p. It returns when desired state is in line with
	// the file, or an error that says why the file is unchanged. nil: files cannot be written.
	WriteFile func(ctx context.Context, owner spec.Owner, p *spec.Pipeline) error
	// DryRun returns the output of a pipeline's processors for records. nil: dry runs are not available.
	DryRun func(ctx context.Context, request spec.DryRunRequest) (*spec.DryRun, error)
	// Rates returns the rates of the running pipelines. nil: rates are not measured.
	Rates func() []spec.PipelineRates
	// Trend returns the measurements of a pipeline in a window of time: 15m, 1h or 24h. nil: it is not available.
	Trend       func(id, last string) *spec.Trend
	Insight     Insight         // content of pages besides pipelines; a nil field cannot be requested
	DeadLetters DeadLetterStore // nil: dead letters are not available
	Replays     Replays         // set with DeadLetters
	Logs        Lines           // nil: the log is not available
	Positions   Checkpoints     // nil: positions of sources are not available
	Cluster     Member          // nil: the agent is no member of a cluster
	// Docs returns a file of the documentation by its name; nil: there is none.
	Docs func(name string) ([]byte, bool)
	// Notify sends a notification to every target, and returns the results.
	Notify func(ctx context.Context) []spec.NotificationResult
	Log    *slog.Logger // nil discards
	// Down is the reason why the agent has no pipelines. While it is set, only the endpoints about the agent itself are
	// available.
	Down    error
	Version string
	Debug   bool // serve profiles under /debug/pprof/
	// Profiles serves profiles. It is nil in a binary that contains none.
	Profiles http.Handler
	// ToolServer serves tools for language models at /mcp. It is nil in a binary that contains none.
	ToolServer ToolServer
	Tools      string // ToolsRead or ToolsWrite; anything else: no tools

	// names, in addition to localhost and addresses of the machine, that may be in the Host header
	Hosts   []string
	Origins []string      // of pages of other sites that may use the API
	Tokens  func() Tokens // asked at each request; nil: no tokens
	TLS     *tls.Config   // nil: no TLS

	once      sync.Once
	handler   http.Handler
	log       *slog.Logger
	state     *desired
	guard     *guard.Guard
	inspector *inspect.Hub
	requests  *repeats
	closing   chan struct{} // closed to end long-running responses
	closeOnce sync.Once
	limits    *inspect.Limits // limits of the inspector's sessions; nil: DefaultLimits
}

// Tokens are the tokens of an API.
type Tokens = guard.Tokens

func (s *Server) init() {
	s.once.Do(func() {
		if s.log = s.Log; s.log == nil {
			s.log = slog.New(slog.DiscardHandler)
		}
		s.log = s.log.With("component", "api")
		s.closing = make(chan struct{})
		if s.limits == nil {
			s.limits = &inspect.DefaultLimits
		}
		s.state = &desired{Store: s.Desired, States: s.Loop, Parser: s.Parser, Plugins: s.Plugins}
		if s.Tokens == nil {
			s.Tokens = func() Tokens { return Tokens{} }
		}
		s.guard = &guard.Guard{Hosts: s.Hosts, Origins: s.Origins, Tokens: s.Tokens, Log: s.log, Fail: s.fail}
		s.inspector = &inspect.Hub{Taps: s.Taps, Show: s.Show, Closing: s.closing, Changed: s.Changed,
			Gone: s.state.Forgotten, Limits: *s.limits, Memory: s.Memory}
		s.requests = &repeats{Answers: s.Answers, Log: s.log}
		base := shared{Desired: s.state, Loop: s.Loop, Placements: s.Placements, Changed: s.Changed, Guard: s.guard,
			Rates: s.Rates, Closing: s.closing}
		s.handler = s.guard.Protect(s.router(base))
	})
}

// fail answers with the error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) { fail(s.log, w, r, err) }

// Handler returns the handler of all paths. It is ready for use without Serve, which
// adds the time limits.
func (s *Server) Handler() http.Handler {
	s.init()
	return s.handler
}

// Time limits of Serve for clients.
var (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 60 * time.Second
	placeTimeout  = 2 * time.Second        // for a new connection to wait for a slot
	placeGrace    = 500 * time.Millisecond // for a connection without a complete request to keep its slot

	shutdownTimeout = 5 * time.Second // to receive the answer to a request when the server ends
)

const maxHeader = 16 << 10

// Serve serves on l until ctx ends. A client that can open a Unix socket may do everything, so the mode of the socket
// controls access; it is not encrypted. When ctx ends, Serve accepts no more requests, ends streams within a second,
// and returns when the requests in progress are answered or took too long.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.init()
	limited := guard.Limit(l, placeTimeout, placeGrace, s.log)
	l = limited
	if s.TLS != nil && l.Addr().Network() != "unix" {
		l = tls.NewListener(l, s.TLS)
	}
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ConnContext: guard.WithConn, ConnState: limited.Observe,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(limited.CloseUnused)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		s.endStreams()
		return err
	case <-ctx.Done():
	}
	s.endStreams()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(end) != nil {
		server.Close()
	}
	err := <-failed
	s.inspector.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// endStreams ends all streaming responses.
func (s *Server) endStreams() { s.closeOnce.Do(func() { close(s.closing) }) }

// Stats are the counters of the server.
type Stats struct {
	Panics   uint64            // requests that ended in a panic
	Sessions map[string]int    // inspector sessions by connector
	Dropped  map[string]uint64 // records not shown by inspectors, by connector
	Expiry   time.Time         // of the certificate that new connections get; zero: there is none
}

// Stats returns the current counters.
func (s *Server) Stats() Stats {
	s.init()
	sessions, dropped := s.inspector.Stats()
	return Stats{Panics: s.guard.Panics(), Sessions: sessions, Dropped: dropped, Expiry: s.expiry()}
}

// expiry returns when the certificate in use expires, zero if there is none.
func (s *Server) expiry() time.Time {
	c := s.TLS
	if c != nil && c.GetConfigForClient != nil {
		c, _ = c.GetConfigForClient(&tls.ClientHelloInfo{})
	}
	if c == nil || len(c.Certificates) == 0 || c.Certificates[0].Leaf == nil {
		return time.Time{}
	}
	return c.Certificates[0].Leaf.NotAfter
}
