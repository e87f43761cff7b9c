package http

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// place is how far polling has got: what a position says.
type place struct {
	N uint64 `json:"n"` // records so far, so that no two positions are the same

	Cursor string `json:"cursor,omitempty"` // value of cursor.param in the next request
	// With cursor.field, the records that have the value Cursor: how many were read, and a hash
	// of them. They come again where the server takes the value as "from", not "behind".
	Count int    `json:"count,omitempty"`
	Chain string `json:"chain,omitempty"`

	Page  string `json:"page,omitempty"`  // URL, token or number of the next page; empty: the first
	Index int    `json:"index,omitempty"` // records of the page that were read
	Hash  string `json:"hash,omitempty"`  // of the last one of them

	// Without a cursor and pages, the response: what it is, and what to ask with whether it
	// has changed, once all of it was read.
	Digest   string `json:"digest,omitempty"`
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

func parsePlace(pos record.Position) (p place, err error) {
	if len(pos) == 0 {
		return p, nil
	}
	d := json.NewDecoder(bytes.NewReader(pos))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.N == 0 {
		return p, sdk.CannotResume(pos, "a position of http with url")
	}
	return p, nil
}

func (p *place) position() (record.Position, error) {
	text, err := json.Marshal(p)
	if err == nil && len(text) > record.MaxPosition {
		err = errors.New("the cursor, the page or the ETag that the server gives is too long to be kept")
	}
	return text, err
}

// counted returns the place behind a record with this value of cursor.field.
func (p place) counted(value, hash string) place {
	if value != p.Cursor {
		p.Cursor, p.Count, p.Chain = value, 0, ""
	}
	p.Count++
	p.Chain = digest([]byte(p.Chain + hash))
	return p
}

const digestBytes = 12 // of a SHA-256: enough to distinguish the states of one resource

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:digestBytes])
}

func digestOf(d record.Data) (string, error) {
	text, err := d.AppendJSON(nil)
	return digest(text), err
}
