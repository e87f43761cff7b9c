package s3

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/lazy"
)

// position says which object a record is of, and how to go on behind it.
type position struct {
	place
	Resume int `json:"@resume"` // what is before it identifies the object

	Bucket   string   `json:"bucket"`
	Prefixes []string `json:"prefixes,omitempty"` // nil: the setting prefix, which may be another one by now
	// Added are those of the prefixes that the snapshot is of, while polling waits at Reached. Nil: it is of all.
	Added []string `json:"added,omitempty"`
	// Snapshot is when the snapshot began, while it runs: objects come by key. Those that were
	// modified later are left for polling.
	Snapshot *time.Time `json:"snapshot,omitempty"`
	Reached  *place     `json:"reached,omitempty"` // nil: the object itself
	// Since is when the window of objects that may appear late begins, and Read the set of those in
	// it that were read. Nil: what is up to Reached was.
	Since   *time.Time `json:"since,omitempty"`
	Read    []byte     `json:"read,omitempty"`
	Uploads []upload   `json:"uploads,omitempty"` // under way
}

func (p *position) encode() (record.Position, error) {
	text, err := json.Marshal(p)
	if err == nil && len(text) > record.MaxPosition {
		err = fmt.Errorf("the position of object %q has %d bytes: it may have %d", p.Key, len(text), record.MaxPosition)
	}
	return text, err
}

// foreign matches positions of Conduit's connector: the key, s for the snapshot or c for changes,
// and the time in seconds.
var foreign = lazy.Regexp(`(?s)^(.+)_([sc])(-?[0-9]{1,11})$`)

// parsePosition returns the position. A snapshot of Conduit's starts over, as it does there. Changes of
// the second that Conduit read last come again: which of them it had is not known.
func parsePosition(pos record.Position, bucket string) (p position, err error) {
	d := json.NewDecoder(bytes.NewReader(pos))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err == nil && p.Resume == 1 && p.Key != "" {
		if p.Bucket != bucket {
			return p, sdk.Permanent(fmt.Errorf("cannot resume: the position is one of bucket %q, and aws.bucket is %q now: set it back; %s", p.Bucket, bucket, sdk.StartOver))
		}
		return p, nil
	}
	match := foreign().FindSubmatch(pos)
	if match == nil {
		return p, sdk.CannotResume(pos, "a position of s3")
	}
	seconds, err := strconv.ParseInt(string(match[3]), 10, 64)
	p = position{Bucket: bucket}
	if err == nil && string(match[2]) == "c" {
		p.Reached = &place{Modified: time.Unix(seconds, 0).UTC()}
	}
	return p, err
}
