package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/agent/process"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// openStore opens the store. While the store is damaged no pipeline runs, since no position can be trusted, and
// openStore does not create another one in its place. The API reports the damage, and the agent continues once the
// store was repaired or restored. openStore returns nil without an error if ctx ends before that.
func openStore(ctx context.Context, o Options) (*store.DB, error) {
	open := func() (*store.DB, error) {
		c := o.Config.DB.SQLite
		return store.Open(ctx, c.Path, store.WithLog(o.Log), store.OnNetwork(c.NetworkFileSystem))
	}
	_, missing := os.Stat(o.Config.DB.SQLite.Path)
	db, err := open()
	if err == nil {
		if errors.Is(missing, fs.ErrNotExist) {
			o.Log.Info("created a new, empty store", "component", "agent", "store", absolute(o.Config.DB.SQLite.Path))
		}
		sayAdopted(db, o)
	}
	if !unusable(err) || !o.Config.API.Enabled {
		return db, err
	}
	o.Log.Error("no pipeline runs until the store is complete: waiting for it", "component", "agent", "err", err)
	w := &waiting{Agent: &Agent{options: o, started: time.Now()}, open: open, problem: err}
	return w.run(ctx)
}

func unusable(err error) bool {
	return errors.Is(err, sqlitefile.ErrDamaged) || errors.Is(err, sqlitefile.ErrIncomplete)
}

// sayAdopted logs the sources that resume from an earlier position because the store was replaced.
func sayAdopted(db *store.DB, o Options) {
	if db.Adopted() == nil {
		return
	}
	o.Log.Warn("the store was replaced by an older file: sources deliver the records since then again",
		"component", "agent", "sources", len(db.Adopted().Sources))
	for _, c := range db.Adopted().Sources {
		o.Log.Warn("source resumes after an earlier position", "component", "agent", "pipeline_id", c.PipelineID,
			"connector_id", c.ConnectorID, "position", store.PositionText(c.Position))
	}
}

// waiting is an agent that waits for its store.
type waiting struct {
	*Agent

	open    func() (*store.DB, error)
	problem error
	db      *store.DB
}

// retryInterval is the interval of checks whether the files of the store changed.
const retryInterval = time.Second

// run serves the API until the store can be opened, and returns the store.
func (w *waiting) run(ctx context.Context) (*store.DB, error) {
	serve, err := w.listen(&api.Server{
		Changed:   func() <-chan struct{} { return nil },
		Ready:     func(context.Context) error { return w.problem },
		Directory: func() spec.Directory { return spec.Directory{} },
		Log:       w.options.Log, Version: w.options.Version, Down: w.problem,
		Insight: api.Insight{Agent: func(context.Context) (rest.Agent, error) { return w.facts(w.problem), nil }},
	})
	if err != nil {
		return nil, errors.Join(w.problem, err)
	}
	w.options.Log.Info("API ready, for the status of the agent only", "component", "api", "address", w.address)
	service := &process.Service{Check: func(context.Context) error { return nil }, Log: w.options.Log}
	waited, end := context.WithCancel(ctx)
	defer end()
	g, gctx := errgroup.WithContext(waited)
	g.Go(func() error { return serve(gctx) })
	g.Go(func() error { return service.Watchdog(gctx) })
	g.Go(func() error { defer end(); return w.retry(gctx) })
	service.Waiting(w.problem)
	if err := g.Wait(); err != nil || w.db == nil {
		return nil, err
	}
	w.options.Log.Info("the store is complete again", "component", "agent")
	return w.db, nil
}

// retry opens the store when its files have changed, until that succeeds or ctx ends.
func (w *waiting) retry(ctx context.Context) error {
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	seen := w.files()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := w.files()
		if now == seen {
			continue
		}
		db, err := w.open()
		if err == nil {
			sayAdopted(db, w.options)
			w.db = db
			return nil
		}
		if !errors.Is(err, store.ErrLocked) { // by a repair that is still in progress
			seen = now
			w.options.Log.Error("the store is still not complete", "component", "agent", "err", err)
		}
	}
}

// state identifies a state of the files of the store.
type state [2]struct {
	size     int64
	modified time.Time
	missing  bool
}

func (w *waiting) files() (s state) {
	path := w.options.Config.DB.SQLite.Path
	for i, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if s[i].missing = errors.Is(err, fs.ErrNotExist); err == nil {
			s[i].size, s[i].modified = info.Size(), info.ModTime()
		}
	}
	return s
}
