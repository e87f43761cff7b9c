package api

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Limits of excerpts in lists of dead letters.
const (
	maxExcerpts   = 100      // in a page
	maxExcerpted  = 64 << 10 // bytes of a dead letter; larger ones have no excerpt
	excerptLength = 200      // characters
)

// excerpts adds excerpts of the records to a list. A dead letter that is large, that was replayed or dropped meanwhile,
// or that cannot be read now gets none.
func (s *deadLetterHandlers) excerpts(ctx context.Context, pipeline string, all []spec.DeadLetter) {
	for i := range all {
		if all[i].Bytes > maxExcerpted {
			continue
		}
		reserved, release := context.WithCancel(ctx) // the store reserves memory until the end of the context
		if l, err := s.Store.Get(reserved, pipeline, all[i].ID); err == nil {
			all[i].Excerpt = excerpt(l.Record)
		}
		release()
	}
}

// excerpt returns the beginning of the payload of a record in the JSON form as one line of text, "" if it has none.
func excerpt(body []byte) string {
	readable, err := record.Readable(body)
	var r struct {
		Payload struct{ Before, After json.RawMessage }
	}
	if err != nil || json.Unmarshal(readable, &r) != nil {
		return ""
	}
	data := r.Payload.After
	if len(data) == 0 || bytes.Equal(data, []byte("null")) {
		data = r.Payload.Before
	}
	var text string
	if json.Unmarshal(data, &text) != nil { // structured
		text = string(data)
	}
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > excerptLength {
		line = append(line[:excerptLength], '…')
	}
	return string(line)
}
