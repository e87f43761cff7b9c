// Package recordid recognizes records that come again: after a restart an agent sends the in-flight
// batches once more, and nothing else.
package recordid

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/conduit-agent/conduit/plugins/record"
)

// ID stands for one record of one source: it is the same each time the record comes.
type ID [16]byte

// String returns hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Window is more records than an agent ever has outstanding from one source.
const Window = 1 << 18

// Sequence gives records their ids. Several that processors made of one have its position, and
// come one after the other: they are counted.
type Sequence struct {
	last  piece // that was settled
	given []piece
}

// piece is a record, or one of several with the same position.
type piece struct {
	of     string // see Of
	number uint64 // among those in a row of the same
}

// Of returns what is the same for a record each time it comes, and for all that processors make of one: its source and
// position. A record that was made of a window has the position of the last record in it, which may be in several
// windows: these get different ids.
func Of(r *record.Record) string {
	of := r.Metadata.Get(record.KeySourceConnectorID) + "\x00" + string(r.Position.Identity())
	if window := r.Metadata.Get(record.KeyWindowStart); window != "" {
		of += "\x00" + window
	}
	return of
}

// IDs returns the ids of records that follow those that were settled last.
func (s *Sequence) IDs(records []record.Record) []ID {
	ids := make([]ID, len(records))
	s.given = s.given[:0]
	before := s.last
	for i := range records {
		p := piece{of: Of(&records[i])}
		if p.of == before.of {
			p.number = before.number + 1
		}
		ids[i], before = p.id(), p
		s.given = append(s.given, p)
	}
	return ids
}

func (p piece) id() (id ID) {
	text := []byte(p.of)
	if p.number > 0 {
		text = binary.AppendUvarint(append(text, 0), p.number)
	}
	sum := sha256.Sum256(text)
	copy(id[:], sum[:])
	return id
}

// Settled takes note that the first n of the records that got ids last, or all if there are fewer,
// were written or refused.
func (s *Sequence) Settled(n int) {
	if n = min(n, len(s.given)); n > 0 {
		s.last = s.given[n-1]
	}
}

// Wrote notes the result of a Write of the records that got ids last: the first n were written, and the record behind
// them was refused, unless err says that the destination is unavailable or was interrupted. Then that record comes again.
func (s *Sequence) Wrote(n int, err error) {
	var unavailable interface{ Lost() bool }
	interrupted := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err != nil && !interrupted && !errors.As(err, &unavailable) {
		n++
	}
	s.Settled(n)
}
