package standalone

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/notify"
)

// unanswered holds the records that were written to a destination and not answered, in order.
type unanswered struct {
	mu      sync.Mutex
	parts   []part        // guarded by mu
	count   int           // guarded by mu: records whose result was not passed on
	changed notify.Signal // a refusal was added
	empty   notify.Signal // everything is answered
}

// part is a message in transit, or a record that was never sent.
type part struct {
	positions record.Positions
	next      int   // index of the first position without an answer
	refused   error // reason why it was never sent
}

func (u *unanswered) expect(positions record.Positions, refused error) {
	u.mu.Lock()
	u.parts = append(u.parts, part{positions: positions, refused: refused})
	u.count += positions.Len()
	u.mu.Unlock()
	if refused != nil {
		u.changed.Notify()
	}
}

var errSurplus = errors.New("the plugin acknowledged more records than it received")

// take records the answer for the record at pos, which must be the next one. It reports whether that was the last
// record of a message.
func (u *unanswered) take(pos record.Position) (partDone bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.parts) == 0 || u.parts[0].refused != nil {
		return false, errSurplus
	}
	p := &u.parts[0]
	if want := p.positions.At(p.next); !bytes.Equal(pos, want) {
		return false, fmt.Errorf("the plugin acknowledged record %.100q instead of %.100q", pos, want)
	}
	p.next++
	if partDone = p.next == p.positions.Len(); partDone {
		u.pop()
	}
	return partDone, nil
}

// takeRefused takes the next record if it was refused, and returns the reason.
func (u *unanswered) takeRefused() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.parts) == 0 || u.parts[0].refused == nil {
		return nil
	}
	refused := u.parts[0].refused
	u.pop()
	return refused
}

func (u *unanswered) pop() {
	u.parts[0] = part{}
	u.parts = u.parts[1:]
}

// passedOn records that the results of n records were passed on. Until then Flush waits for them.
func (u *unanswered) passedOn(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count -= n
}

func (u *unanswered) outstanding() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}

func (u *unanswered) noteEmpty() {
	if u.outstanding() == 0 {
		u.empty.Notify()
	}
}
