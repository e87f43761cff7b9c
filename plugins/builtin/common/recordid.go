package common

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/conduit-agent/conduit/plugins/record"
)

// RecordID identifies a record of a source. It is the same for each repetition of the record.
type RecordID [16]byte

// String returns the id in hexadecimal.
func (id RecordID) String() string { return hex.EncodeToString(id[:]) }

// IDWindow is greater than the number of records that an agent ever has in flight from one source.
const IDWindow = 1 << 18

// RecordIDs assigns ids to records. Several records that processors made from one record share its position and follow
// each other; a number tells them apart.
type RecordIDs struct {
	last  recordPiece // settled last
	given []recordPiece
}

// recordPiece identifies a record, or one of several records with the same position.
type recordPiece struct {
	origin string // see OriginOf
	number uint64 // index among consecutive pieces with the same origin
}

// OriginOf returns the source and position of a record. It is the same for each repetition of the record, and for all
// records that processors made from it. A record made from a window has the position of the last record in the window,
// and that record may be in several windows; the result then includes the start of the window.
func OriginOf(r *record.Record) string {
	origin := r.Metadata.Get(record.KeySourceConnectorID) + "\x00" + string(r.Position.Identity())
	if window := r.Metadata.Get(record.KeyWindowStart); window != "" {
		origin += "\x00" + window
	}
	return origin
}

// IDs returns the ids of the records that follow the last settled one.
func (s *RecordIDs) IDs(records []record.Record) []RecordID {
	ids := make([]RecordID, len(records))
	s.given = s.given[:0]
	before := s.last
	for i := range records {
		p := recordPiece{origin: OriginOf(&records[i])}
		if p.origin == before.origin {
			p.number = before.number + 1
		}
		ids[i], before = p.id(), p
		s.given = append(s.given, p)
	}
	return ids
}

func (p recordPiece) id() (id RecordID) {
	text := []byte(p.origin)
	if p.number > 0 {
		text = binary.AppendUvarint(append(text, 0), p.number)
	}
	sum := sha256.Sum256(text)
	copy(id[:], sum[:])
	return id
}

// Settled records that the first n of the records in the last call of IDs, or all if there are fewer, were written or
// refused.
func (s *RecordIDs) Settled(n int) {
	if n = min(n, len(s.given)); n > 0 {
		s.last = s.given[n-1]
	}
}

// Wrote records the result of a Write of the records in the last call of IDs. The first n were written. The next one
// was refused, unless err reports that the destination is unavailable or was interrupted; then this record is repeated.
func (s *RecordIDs) Wrote(n int, err error) {
	var unavailable interface{ Lost() bool }
	interrupted := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err != nil && !interrupted && !errors.As(err, &unavailable) {
		n++
	}
	s.Settled(n)
}
