// Package api serves the REST API, the stream of records of the inspector, and what
// operators ask: health, readiness, metrics.
//
// A write changes desired state, in the store that the pipeline files change, too, and
// what follows from it is done by the same reconciler. What is read about running
// pipelines is what was observed, not what was asked for.
package api

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// What an implementation of Observed or Plugins returns for the caller to branch on.
var (
	ErrPluginNotFound = errors.New("plugin not found")
	ErrStarting       = errors.New("the agent is starting")
)

// Desired is the desired state of all pipelines.
type Desired interface {
	// Declarations returns all desired state, withdrawn pipelines included, by id.
	Declarations(ctx context.Context) ([]spec.Declaration, error)
	// Get returns the desired state of one pipeline, withdrawn or not, or an error that is
	// spec.ErrNotFound.
	Get(ctx context.Context, id string) (spec.Declaration, error)
	// ApplyIf performs c in one transaction if every pipeline named in expect is declared in
	// that version (spec.Declaration.Version), an empty one meaning that it is not declared or
	// is withdrawn. Otherwise it changes nothing and returns an error that is spec.ErrConflict.
	ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error
	// SetOverride makes the pipeline run or stop whatever its declaration says, until the
	// declaration changes. The declared status ends an override.
	SetOverride(ctx context.Context, id string, status spec.Status) error
	// History returns the revisions of a pipeline that are kept, oldest first.
	History(ctx context.Context, id string) ([]spec.Revision, error)
	// FileStates returns what is known of the pipeline files, by path.
	FileStates(ctx context.Context) ([]spec.FileState, error)
	// Events returns up to limit events with an id above after, oldest first; when after
	// is negative the newest ones instead, oldest first too.
	Events(ctx context.Context, after int64, limit int) ([]spec.Event, error)
}

// Observed is what is observed of pipelines and connectors, and how they are nudged.
type Observed interface {
	// State returns the state of a pipeline, false when nothing was observed of it.
	State(id string) (spec.State, bool)
	// Changed returns a channel that is closed soon after the next change of any state or
	// of desired state. Who waits looks again from time to time in any case.
	Changed() <-chan struct{}
	// Position returns where the source with this qualified id got, nil if nowhere.
	Position(ctx context.Context, connectorID string) (record.Position, error)
	// Restart has a pipeline restarted, or started at once if it waits after a failure. It
	// returns when that is noted.
	Restart(ctx context.Context, id string) error
	// CutOff ends a pipeline that is to stop without waiting for the records in flight. It
	// returns when that is noted.
	CutOff(ctx context.Context, id string) error
	// CleanUp is called after the connector was removed from its pipeline: if it was ever
	// started, LifecycleOnDeleted is called; then its state and position are forgotten.
	CleanUp(ctx context.Context, connectorID string) error
	// PluginChanges returns what became of executables that connectors run from, by connector.
	PluginChanges() []spec.PluginChange
	// Ready returns why the agent is not ready: ErrStarting, or what is unavailable.
	Ready(ctx context.Context) error
	// Directory returns how it stands with the directory of the pipeline files.
	Directory() spec.Directory
}

// Plugins is what is known of connector plugins.
type Plugins interface {
	// Plugins describes all plugins, by name.
	Plugins() []rest.Plugin
	// Check has a fresh instance of the plugin accept the settings, references in them
	// resolved, and tears it down. The error is ErrPluginNotFound, contains a
	// SettingError for every setting that is wrong, or says why the plugin refuses.
	Check(ctx context.Context, typ spec.ConnectorType, plugin string, settings map[string]string) error
}

// SettingError says what is wrong with one setting. Check may join several.
type SettingError struct {
	Setting string
	Message string
}

// Error returns the message with the setting before it.
func (e *SettingError) Error() string { return "setting " + e.Setting + ": " + e.Message }

// Taps lets the inspector see records.
type Taps interface {
	// Observe calls f with every batch that passes the connector until stop is called. f
	// returns at once, leaves the batch alone and keeps nothing of it. It may be called
	// concurrently.
	Observe(connectorID string, f func(*record.Batch)) (stop func())
}

// Server serves the API. Desired, Observed, Plugins, Taps and Answers must be set, before first use.
type Server struct {
	Desired  Desired
	Observed Observed
	Plugins  Plugins
	Taps     Taps
	Answers  Answers
	// Show makes of a record what the inspector shows of it: structured data may pass
	// connectors encoded. It may be called concurrently. nil: records are shown as they pass.
	Show    func(*record.Record)
	Metrics http.Handler // served at /metrics; nil: nothing is
	// Reload reads the pipeline files anew and returns when desired state is in line with
	// them, or why it is not. With prune, the absence of all files counts. nil: it cannot be asked for.
	Reload func(ctx context.Context, prune bool) error
	// Plan returns what the pipeline files, with those of the request saved among them, would
	// change, without changing anything. nil: it cannot be asked for.
	Plan    func(ctx context.Context, request rest.PlanRequest) (*rest.Plan, error)
	Log     *slog.Logger // nil discards
	Version string

	Hosts      []string    // names, beside localhost and addresses of the machine, that may be in the Host header
	ReadToken  string      // lets read; with neither token set, everybody may do everything
	AdminToken string      // lets do everything
	TLS        *tls.Config // nil: no TLS

	once      sync.Once
	handler   http.Handler
	log       *slog.Logger
	going     going
	guesses   guesses
	inspector hub
	streams   atomic.Int64  // answers that go on
	closing   chan struct{} // closed when long answers are to end
	closeOnce sync.Once
	commit    sync.Mutex // held to compare and apply
	stats     stats
}

func (s *Server) init() {
	s.once.Do(func() {
		if s.log = s.Log; s.log == nil {
			s.log = slog.New(slog.DiscardHandler)
		}
		s.log = s.log.With("component", "api")
		s.closing = make(chan struct{})
		s.inspector.taps, s.inspector.show, s.inspector.closing = s.Taps, s.Show, s.closing
		s.inspector.changed, s.inspector.gone = func() <-chan struct{} { return s.Observed.Changed() }, s.forgotten
		s.handler = s.protect(s.router())
	})
}

// Handler returns the handler of all paths. It is ready for use without Serve, which
// adds the time limits.
func (s *Server) Handler() http.Handler {
	s.init()
	return s.handler
}

// Time that Serve gives a client.
var (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 60 * time.Second
)

const (
	shutdownTimeout = 5 * time.Second
	maxHeader       = 16 << 10
	maxStreams      = 256 // answers that go on, beside inspector sessions
)

// Serve serves on l until ctx ends. Then it takes no more requests, ends streams within
// a second, and returns when the requests in progress are answered or took too long.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.init()
	limited := newLimiter(l, s.log)
	l = limited
	if s.TLS != nil {
		l = tls.NewListener(l, s.TLS)
	}
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ConnContext: withConn, ConnState: limited.observe,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
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
	<-failed
	s.inspector.open.Wait()
	return nil
}

// endStreams has all answers end that would go on for ever.
func (s *Server) endStreams() { s.closeOnce.Do(func() { close(s.closing) }) }

// long returns a context that ends with r's or when the server ends, and lifts the limit
// on the time that reading r may take, which would end a long answer, too.
func (s *Server) long(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // there is none when the writer knows no deadlines
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// stream is long for an answer that goes on. Its connection is no longer one of those
// that are limited: streams are, on their own. end has another one be possible.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) (ctx context.Context, end func(), err error) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return nil, nil, rest.Errorf(rest.ResourceExhausted, rest.ReasonTooMany, "there are %d streams already", maxStreams)
	}
	if c := connection(r); c != nil {
		c.release()
	}
	w.Header().Set("Connection", "close") // it has no place for further requests
	ctx, cancel := s.long(w, r)
	return ctx, func() { cancel(); s.streams.Add(-1) }, nil
}
