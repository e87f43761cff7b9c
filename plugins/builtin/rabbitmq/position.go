package rabbitmq

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// position is a place in a stream. The part before "@resume" identifies the message.
type position struct {
	Stream string `json:"stream"`
	Offset uint64 `json:"offset"`
	Resume int    `json:"@resume"`
	Sum    uint32 `json:"sum"` // of the message, which reveals a recreated stream
}

func sumOf(body []byte) uint32 { return crc32.ChecksumIEEE(body) }

func (p *position) encode() (record.Position, error) { return json.Marshal(p) }

// parsePosition returns the position in a stream; nil at the beginning.
func parsePosition(pos record.Position, stream string) (*position, error) {
	if len(pos) == 0 {
		return nil, nil
	}
	p, d := &position{}, json.NewDecoder(bytes.NewReader(pos))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil || p.Resume != 1 {
		return nil, sdk.CannotResume(pos, "a position of a stream of rabbitmq")
	}
	if p.Stream != stream {
		return nil, sdk.Permanent(fmt.Errorf("cannot resume: the position belongs to stream %q, but queue is now %q: "+
			"set it back; %s", p.Stream, stream, sdk.StartOver))
	}
	return p, nil
}
