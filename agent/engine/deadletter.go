package engine

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// DeadLetter is a refused record on its way to the dead-letter store.
type DeadLetter struct {
	SourceID    string         // qualified
	Record      record.Record  // as refused; if it was split or held, as it was before
	Original    *record.Record // as it was read; nil: not kept
	RefusedBy   string         // qualified id of the processor or destination
	Destination bool           // RefusedBy is a destination
	// Entry is the qualified id of the processor or destination that a replay of the record enters: RefusedBy, or the
	// processor that split it or held it.
	Entry   string
	Err     error // without secrets
	Stopped bool  // it ends the run, and the source delivers the record again
}

// ackerSuffix ends the name of the node that receives the acknowledgements of a destination in Conduit.
const ackerSuffix = "-acker"

// Enveloped returns the record of a dead letter in the format of Conduit, so that readers of its dead-letter queues
// can read it.
func (l *DeadLetter) Enveloped() record.Record {
	node := l.RefusedBy
	if l.Destination {
		node += ackerSuffix
	}
	var md record.Metadata
	md.Set(record.KeyDLQNackError, l.Err.Error())
	md.Set(record.KeyDLQNackNodeID, node)
	md.Set(record.KeyCreatedAt, strconv.FormatInt(time.Now().UnixNano(), 10))
	return record.Record{
		Position:  record.Position(l.SourceID + "/" + string(l.Record.Position)),
		Operation: record.OperationCreate,
		Metadata:  md,
		After:     record.Structured(l.Record.Encodable().Map()),
	}
}

// maxEscaped is the maximum size in bytes of the JSON form of a record that Escaped keeps.
const maxEscaped = 256 << 10

// Escaped returns the record of a dead letter in a form for destinations that refuse the form of Enveloped because of
// a character, a number or the depth of a value. All text is visible ASCII; the record is its JSON form in base64, in
// the field recordBase64, unless it is too large.
func (l *DeadLetter) Escaped() record.Record {
	after := map[string]any{"error": visible(l.Err.Error()), "refusedBy": visible(l.RefusedBy),
		"source": visible(l.SourceID)}
	body := l.Record.Encodable()
	if text, err := record.AppendJSON(nil, &body); err == nil && len(text) <= maxEscaped {
		after["recordBase64"] = base64.StdEncoding.EncodeToString(text)
	}
	return l.standIn(after)
}

// Bare returns a record that only identifies a dead letter. A destination that refuses it refuses everything.
func (l *DeadLetter) Bare() record.Record {
	return l.standIn(map[string]any{"error": "the destination refuses this dead letter, which the agent keeps",
		"source": visible(l.SourceID)})
}

func (l *DeadLetter) standIn(after map[string]any) record.Record {
	sum := sha256.Sum256(l.Record.Position)
	var md record.Metadata
	md.Set(record.KeyDLQNackError, after["error"].(string))
	md.Set(record.KeyDLQNackNodeID, visible(l.RefusedBy))
	md.Set(record.KeyCreatedAt, strconv.FormatInt(time.Now().UnixNano(), 10))
	return record.Record{Position: record.Position(visible(l.SourceID) + "/" + hex.EncodeToString(sum[:])),
		Operation: record.OperationCreate,
		Metadata:  md, After: record.Structured(after)}
}

// visible returns the beginning of a text in visible ASCII characters.
func visible(text string) string {
	const most = 1 << 10
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), most)])
}
