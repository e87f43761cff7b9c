package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// world holds the state that survives an agent: the content of sources and destinations. It checks the delivery
// guarantees for records. The records of a pipeline are the numbers from 1.
type world struct {
	mu     sync.Mutex
	lives  map[string]*lifetime // by pipeline
	now    *machine             // the running machine, or the last one
	faults []string             // broken guarantees
}

// lifetime is the time of a pipeline from its creation to its deletion.
type lifetime struct {
	written int  // records that the destination has, without a gap
	saved   int  // position in the store
	clean   bool // no event since the source was opened allows repeated records
	deaf    bool // an event since then allows saved records that are not acknowledged to the source
	deleted bool // LifecycleOnDeleted was called

	source *pump  // open now
	sink   *basin // open now
	next   int    // next record that the open source passes to the destination
	acked  int    // last record acknowledged to the open source

	opens  int  // how often the source was opened
	fail   bool // the source fails at the next record
	refuse bool // the destination refuses the next record
}

func (w *world) life(id string) *lifetime {
	if w.lives[id] == nil {
		w.lives[id] = &lifetime{clean: true, next: 1}
	}
	return w.lives[id]
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// with calls f with exclusive access to the world.
func (w *world) with(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// machine is one process of an agent. Once it is dead, its calls have no effect.
type machine struct {
	*world
	dead bool
	fuse int // effects until it dies; 0: it does not
}

// boot replaces a machine that ended.
func (w *world) boot() *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, l := range w.lives {
		if l.source != nil || l.sink != nil {
			if !w.now.dead {
				w.fault("%s was left open", id)
			}
			l.source, l.sink, l.clean = nil, nil, false
		}
	}
	w.now = &machine{world: w}
	return w.now
}

func (m *machine) kill() { m.with(func() { m.dead = true }) }

// burns shortens the fuse of m and reports whether m is dead. w.mu is held.
func (m *machine) burns() bool {
	if m.fuse > 0 {
		if m.fuse--; m.fuse == 0 {
			m.dead = true
		}
	}
	return m.dead
}

var errKilled = errors.New("killed")

// write makes a change of the store. m may die before the change, or before it is observed.
func (m *machine) write(change func() error) error {
	var dead bool
	if m.with(func() { dead = m.burns() }); dead {
		return errKilled
	}
	err := change()
	if m.with(func() { dead = m.burns() }); dead {
		return errKilled
	}
	return err
}

func (m *machine) simulation() bubble {
	return bubble{
		Poll: simulatedPoll, Confirm: agenttest.Confirm, Write: m.write, Saved: m.saved, Gone: m.gone,
		Connectors: []sdk.Connector{{
			Name: "numbers", Version: "v1.0.0",
			NewSource:      func() sdk.Source { return &pump{machine: m} },
			NewDestination: func() sdk.Destination { return &basin{machine: m} },
		}},
	}
}

func (m *machine) saved(all []spec.Checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range all {
		l := m.life(s.PipelineID)
		if l.saved = numberOf(s.Position); l.saved > l.written {
			m.fault("%s: position %d is saved, and the destination has %d records", s.PipelineID, l.saved, l.written)
		}
	}
}

// gone records the deletion of a connector.
func (m *machine) gone(connectorID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, _, _ := strings.Cut(connectorID, ":")
	l := m.life(id)
	if !l.deleted {
		m.fault("%s is forgotten, and its deletion was not notified", connectorID)
	}
	if strings.HasSuffix(connectorID, ":src") {
		l.saved, l.written, l.next = 0, 0, 1
	}
}

func numberOf(p record.Position) int {
	n, _ := strconv.Atoi(string(p))
	return n
}

// release lets the open source of a pipeline read n records.
func (w *world) release(id string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.life(id).source; s != nil {
		select {
		case s.ready <- n:
		default: // it has enough records
		}
	}
}

// taste is the settings of both connectors.
type taste struct{ version, flaw string }

func (taste) Parameters() sdk.Parameters {
	return sdk.Parameters{"version": {Type: sdk.TypeString}, "flaw": {Type: sdk.TypeString}}
}

func (s *taste) Configure(_ context.Context, all map[string]string) error {
	if s.version, s.flaw = all["version"], all["flaw"]; s.flaw == agenttest.FlawSettings {
		return errors.New("this cannot work")
	}
	return nil
}

func (s *taste) open() error {
	if s.flaw == agenttest.FlawOpen {
		return errors.New("cannot connect")
	}
	return nil
}

func pipelineOf(ctx context.Context) string {
	id, _, _ := strings.Cut(sdk.EnvFrom(ctx).ConnectorID, ":")
	return id
}

// pump is a source of numbers.
type pump struct {
	sdk.SourceBase
	taste
	*machine
	id    string
	made  int
	ready chan int // numbers of records that may be read
}

func (s *pump) Open(ctx context.Context, pos record.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.taste.open(); err != nil {
		return err
	}
	if s.dead {
		return errKilled
	}
	s.id, s.made, s.ready = pipelineOf(ctx), numberOf(pos), make(chan int, 8)
	l := s.life(s.id)
	switch {
	case l.source != nil:
		s.fault("%s runs twice", s.id)
	case s.made != l.saved:
		s.fault("%s resumes at %d, and position %d was saved", s.id, s.made, l.saved)
	case l.clean && s.made != l.next-1:
		s.fault("%s resumes at %d after a clean end at %d", s.id, s.made, l.next-1)
	}
	l.source, l.next, l.acked, l.clean, l.deaf, l.deleted, l.fail, l.refuse = s, s.made+1, s.made, true, false, false,
		false, false
	l.opens++
	return nil
}

func (s *pump) Read(ctx context.Context) ([]record.Record, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case n := <-s.ready:
		s.mu.Lock()
		defer s.mu.Unlock()
		if l := s.life(s.id); l.fail && !s.dead {
			l.fail, l.clean = false, false
			return nil, errors.New("connection lost")
		}
		records := make([]record.Record, n)
		for i := range records {
			s.made++
			text := []byte(strconv.Itoa(s.made))
			records[i] = record.Record{Position: text, Operation: record.OperationCreate, After: record.Raw(text)}
		}
		return records, nil
	}
}

func (s *pump) Ack(_ context.Context, positions []record.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.life(s.id)
	for _, p := range positions {
		n := numberOf(p)
		if s.dead {
			return errKilled
		}
		if n != l.acked+1 || n > l.saved {
			s.fault("%s: %d is acknowledged after %d, with position %d saved", s.id, n, l.acked, l.saved)
		}
		l.acked = n
	}
	return nil
}

func (s *pump) Teardown(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.life(s.id); s.id != "" && l.source == s && !s.dead {
		if l.source = nil; l.clean && !l.deaf && l.acked != l.next-1 {
			s.fault("%s ended with record %d written and %d acknowledged", s.id, l.next-1, l.acked)
		}
	}
	return nil
}

func (s *pump) LifecycleOnDeleted(ctx context.Context, _ map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.life(pipelineOf(ctx))
	if l.source != nil && !s.dead {
		s.fault("the source of %s is deleted while it is open", pipelineOf(ctx))
	}
	l.deleted = true
	return nil
}

// basin is a destination of numbers.
type basin struct {
	sdk.DestinationBase
	taste
	*machine
	id string
}

func (b *basin) Open(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.taste.open(); err != nil {
		b.life(pipelineOf(ctx)).deaf = true // the source ends before it is notified of all records
		return err
	}
	if b.dead {
		return errKilled
	}
	b.id = pipelineOf(ctx)
	l := b.life(b.id)
	if l.sink != nil {
		b.fault("%s writes twice", b.id)
	}
	l.sink = b
	return nil
}

// Write takes up to a fifth of a second.
func (b *basin) Write(ctx context.Context, records []record.Record) (int, error) {
	select {
	case <-time.After(time.Duration(numberOf(records[0].Position)%4) * 50 * time.Millisecond):
	case <-ctx.Done():
		b.with(func() { b.life(b.id).clean = false })
		return 0, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range records {
		if err := b.take(numberOf(records[i].Position)); err != nil {
			return i, err
		}
	}
	return len(records), nil
}

func (b *basin) take(n int) error {
	l := b.life(b.id)
	if b.burns() {
		return errKilled
	}
	if l.refuse {
		l.refuse, l.clean = false, false
		return errors.New("no good")
	}
	if n != l.next || n > l.written+1 {
		b.fault("%s: %d is written, want %d, with %d records there", b.id, n, l.next, l.written)
	}
	l.next, l.written = n+1, max(l.written, n)
	return nil
}

func (b *basin) Teardown(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.life(b.id); b.id != "" && l.sink == b && !b.dead {
		l.sink = nil
	}
	return nil
}

func (b *basin) LifecycleOnDeleted(ctx context.Context, _ map[string]string) error {
	b.with(func() { b.life(pipelineOf(ctx)).deleted = true })
	return nil
}
