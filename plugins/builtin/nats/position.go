package nats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// position is a place in a stream. The part before "@resume" identifies the message.
type position struct {
	Stream   string    `json:"stream"`
	Sequence uint64    `json:"sequence"`
	Resume   int       `json:"@resume"`
	Created  time.Time `json:"created"` // creation time of the stream
}

func (p *position) encode() (record.Position, error) { return json.Marshal(p) }

func parsePosition(pos record.Position, stream string) (p position, err error) {
	if len(pos) == 0 {
		return position{Stream: stream, Resume: 1}, nil
	}
	d := json.NewDecoder(bytes.NewReader(pos))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Resume != 1 || p.Sequence == 0 {
		return p, sdk.CannotResume(pos, "a position of a stream of nats")
	}
	if p.Stream != stream {
		return p, sdk.Permanent(fmt.Errorf("cannot resume: the position belongs to stream %q, but stream is "+
			"now %q: set it back; %s", p.Stream, stream, sdk.StartOver))
	}
	return p, nil
}
