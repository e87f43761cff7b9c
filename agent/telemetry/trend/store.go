package trend

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// saveInterval is the time between two writes of the file. After a power cut the values of the last saveInterval are
// missing.
const saveInterval = 10 * time.Minute

// format is the number of the format of the file.
const format = 1

// Store holds the trends of all pipelines in memory, and saves them to a file. Set the fields, call Load, then Run.
type Store struct {
	Path string // of the file
	Log  *slog.Logger

	mu        sync.Mutex
	pipelines map[string]*pipeline // guarded by mu
	changed   bool                 // a value, since the file was written; guarded by mu
	worthIt   bool                 // a record passed, or a pipeline was removed, since the file was written; guarded by mu
}

// Add adds a sample of a pipeline that was taken at a time.
func (s *Store) Add(id string, at time.Time, m *Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pipelines[id]
	if p == nil {
		p = &pipeline{ID: id}
		if s.pipelines == nil {
			s.pipelines = map[string]*pipeline{}
		}
		s.pipelines[id] = p
	}
	p.add(at, m)
	s.changed = true
	s.worthIt = s.worthIt || m.Records+m.Settled+m.Refused+m.Lag > 0
}

// Get returns the values of a pipeline in the window with the name last, which ends now. For a pipeline without
// measurements all values are unknown. It returns nil if there is no such window.
func (s *Store) Get(id, last string) *spec.Trend {
	i := slices.IndexFunc(windows[:], func(w window) bool { return w.name == last })
	if i < 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pipelines[id]
	if p == nil {
		p = &pipeline{ID: id}
	}
	return p.trend(i, time.Now())
}

// Forget forgets the values of a pipeline.
func (s *Store) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pipelines[id] != nil {
		delete(s.pipelines, id)
		s.changed, s.worthIt = true, true
	}
}

// Run saves the values when ctx ends, and at intervals as long as records pass: idle pipelines write nothing. Then it
// returns nil.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(saveInterval)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-tick.C:
		}
		if err := s.save(ended); err != nil {
			s.Log.Warn("cannot save the trends of pipelines", "component", "agent", "err", err)
		}
	}
	return nil
}

// save writes the file if a record has passed since it was written, or if this is the last call and a value
// has changed.
func (s *Store) save(last bool) error {
	s.mu.Lock()
	due := s.worthIt || last && s.changed
	if due {
		s.changed, s.worthIt = false, false
	}
	ids := make([]string, 0, len(s.pipelines))
	for id := range s.pipelines {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	err := s.write(ids)
	if err != nil {
		s.mu.Lock()
		s.changed, s.worthIt = true, true
		s.mu.Unlock()
	}
	return err
}

func (s *Store) write(ids []string) (err error) {
	draft := s.Path + ".new"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(draft, s.Path)
		}
		if err != nil {
			_ = os.Remove(draft)
		}
	}()
	buffer := bufio.NewWriterSize(f, 1<<16)
	packed, err := gzip.NewWriterLevel(buffer, gzip.BestSpeed) // little memory; the checksum finds a damaged file
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(packed, format); err != nil {
		return err
	}
	for _, id := range ids {
		line, err := s.encoded(id)
		if err != nil {
			return err
		}
		if _, err := packed.Write(line); err != nil {
			return err
		}
	}
	return errors.Join(packed.Close(), buffer.Flush(), f.Sync())
}

// encoded returns a pipeline as JSON, nothing if it is forgotten. It holds the lock for this pipeline only, and not
// while the file is written, which may take long.
func (s *Store) encoded(id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pipelines[id]; p != nil {
		return json.Marshal(p)
	}
	return nil, nil
}

// Load reads the file, if there is one, and keeps the values of the pipelines for which keep is true. After an error
// there are no values.
func (s *Store) Load(keep func(id string) bool) error {
	f, err := os.Open(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	read, err := readAll(f, keep)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.Path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipelines = read
	return nil
}

func readAll(from io.Reader, keep func(id string) bool) (map[string]*pipeline, error) {
	unpacked, err := gzip.NewReader(bufio.NewReader(from))
	if err != nil {
		return nil, err
	}
	lines, version := json.NewDecoder(unpacked), 0
	if err := lines.Decode(&version); err != nil {
		return nil, err
	}
	if version != format {
		return nil, fmt.Errorf("it has format %d", version)
	}
	all := map[string]*pipeline{}
	for {
		p := &pipeline{}
		switch err := lines.Decode(p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case !p.valid():
			return nil, fmt.Errorf("the values of pipeline %q are not valid", p.ID)
		}
		if keep(p.ID) {
			all[p.ID] = p
		}
	}
}

// valid reports whether the rings have the right sizes.
func (p *pipeline) valid() bool {
	for i := range p.Rings {
		r := &p.Rings[i]
		if len(p.Destinations) > maxDestinations || r.Last < 0 || r.At < 0 ||
			r.Rows != nil && len(r.Rows) != windows[i].steps*p.width() {
			return false
		}
	}
	return true
}
