package s3

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// position identifies the object of a record and the state from which the source resumes after it.
type position struct {
	place
	Row    int64 `json:"row,omitempty"` // number of a line that is not the last one; 0: the whole object
	Resume int   `json:"@resume"`       // the fields before it identify the record

	Bucket   string   `json:"bucket"`
	Prefixes []string `json:"prefixes,omitempty"` // nil: the setting prefix, which may have changed since
	// Added are the prefixes of the snapshot, while polling waits at Reached. Nil means that the snapshot has all
	// prefixes.
	Added []string `json:"added,omitempty"`
	// Snapshot is the time at which the snapshot began, while it runs. It reads objects by key and leaves objects that
	// were modified later to polling.
	Snapshot *time.Time `json:"snapshot,omitempty"`
	Reached  *place     `json:"reached,omitempty"` // nil: the object itself
	// Since is the beginning of the window for objects that appear late, and Known the objects in it that were read.
	// Nil means that all objects up to Reached were read.
	Since   *time.Time `json:"since,omitempty"`
	Known   *readSet   `json:"known,omitempty"`
	Former  []byte     `json:"read,omitempty"`    // in place of Known in earlier versions; not used
	Uploads []upload   `json:"uploads,omitempty"` // in progress
	// Unfinished is the object of Row. The other fields are those after the whole object.
	Unfinished *unfinished `json:"unfinished,omitempty"`
}

func (p *position) encode() (record.Position, error) {
	text, err := json.Marshal(p)
	if err == nil && len(text) > record.MaxPosition {
		err = fmt.Errorf("the position of object %q has %d bytes, more than the maximum of %d",
			p.Key, len(text), record.MaxPosition)
	}
	return text, err
}

// foreign matches positions of Conduit's connector: the key, s for the snapshot or c for changes, and the time in
// seconds.
var foreign = texts.Regexp(`(?s)^(.+)_([sc])(-?[0-9]{1,11})$`)

// parsePosition parses a position. A snapshot of Conduit's connector starts over, as it does there. Changes of the last
// second that Conduit read arrive again, because its position does not tell which it had read.
func parsePosition(pos record.Position, bucket string) (p position, err error) {
	d := json.NewDecoder(bytes.NewReader(pos))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err == nil && p.Resume == 1 && p.Key != "" {
		if p.Bucket != bucket {
			return p, sdk.Permanent(fmt.Errorf("cannot resume: the position belongs to bucket %q, but aws.bucket is "+
				"now %q: set it back; %s", p.Bucket, bucket, sdk.StartOver))
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
