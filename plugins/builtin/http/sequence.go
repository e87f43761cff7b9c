package http

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/texts"
)

// sequence numbers the records of a run of the server. A random prefix distinguishes runs.
type sequence struct {
	prefix string
	last   uint64
}

func newSequence() sequence {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return sequence{prefix: hex.EncodeToString(b[:]) + ":"}
}

// number sets the positions of the records. They share one array.
func (s *sequence) number(records []record.Record) {
	const digits = 20
	text := make([]byte, 0, len(records)*(len(s.prefix)+digits))
	for i := range records {
		start := len(text)
		s.last++
		text = strconv.AppendUint(append(text, s.prefix...), s.last, 10)
		records[i].Position = text[start:len(text):len(text)]
	}
}

var sequencePosition = texts.Regexp(`^[0-9a-f]{16}:[0-9]{1,20}$`)

func isSequence(pos record.Position) bool { return sequencePosition().Match(pos) }
