package common

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Numbers numbers the records of a run of a source. A random number distinguishes runs.
type Numbers struct {
	run  string
	last uint64
}

var numbersPosition = texts.Regexp(`^[0-9a-f]{16}:[0-9]{1,20}$`)

// NewNumbers returns the Numbers of a new run that continues after pos.
func NewNumbers(pos record.Position) (n Numbers, err error) {
	if len(pos) > 0 && !numbersPosition().Match(pos) {
		return n, sdk.CannotResume(pos, "a position of this source")
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	n.run = hex.EncodeToString(b[:])
	return n, nil
}

// Next returns the next position.
func (n *Numbers) Next() record.Position {
	n.last++
	return strconv.AppendUint([]byte(n.run+":"), n.last, 10)
}

// Set sets the positions of the records to the next ones. They share one array.
func (n *Numbers) Set(records []record.Record) {
	const digits = 20
	text := make([]byte, 0, len(records)*(len(n.run)+1+digits))
	for i := range records {
		start := len(text)
		n.last++
		text = strconv.AppendUint(append(append(text, n.run...), ':'), n.last, 10)
		records[i].Position = text[start:len(text):len(text)]
	}
}
