package standalone

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/notify"
)

// expected are the records written to a destination that it has not answered, in order.
type expected struct {
	mu      sync.Mutex
	parts   []part        // guarded by mu
	count   int           // guarded by mu: records in parts
	changed notify.Signal // a refusal was added
	empty   notify.Signal // nothing is expected any more
}

// part is a message on its way, or a record that was never sent.
type part struct {
	positions record.Positions
	next      int   // the first position without an answer
	refused   error // why it was never sent
}

func (e *expected) expect(positions record.Positions, refused error) {
	e.mu.Lock()
	e.parts = append(e.parts, part{positions: positions, refused: refused})
	e.count += positions.Len()
	e.mu.Unlock()
	if refused != nil {
		e.changed.Notify()
	}
}

var errSurplus = errors.New("the plugin answered more records than it was given")

// take notes the answer for the record at pos, which must be the next one. It reports
// whether that was the last of a message.
func (e *expected) take(pos record.Position) (partDone bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.parts) == 0 || e.parts[0].refused != nil {
		return false, errSurplus
	}
	p := &e.parts[0]
	if want := p.positions.At(p.next); !bytes.Equal(pos, want) {
		return false, fmt.Errorf("the plugin answered record %.100q when %.100q was next", pos, want)
	}
	p.next++
	e.count--
	if partDone = p.next == p.positions.Len(); partDone {
		e.pop()
	}
	return partDone, nil
}

// takeRefused takes the next record if it was refused, and returns why.
func (e *expected) takeRefused() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.parts) == 0 || e.parts[0].refused == nil {
		return nil
	}
	refused := e.parts[0].refused
	e.count--
	e.pop()
	return refused
}

func (e *expected) pop() {
	e.parts[0] = part{}
	e.parts = e.parts[1:]
}

func (e *expected) outstanding() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count
}

func (e *expected) noteEmpty() {
	if e.outstanding() == 0 {
		e.empty.Notify()
	}
}
