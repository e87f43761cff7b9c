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

// place is the progress of polling. Its JSON form is a position.
type place struct {
	N uint64 `json:"n"` // number of records so far; makes positions unique

	Cursor string `json:"cursor,omitempty"` // value of cursor.param in the next request
	// With cursor.field: number of read records with the value Cursor, and their hash. If the server includes records
	// that are equal to the cursor, it returns them again.
	Count int    `json:"count,omitempty"`
	Chain string `json:"chain,omitempty"`

	Page  string `json:"page,omitempty"`  // URL, token or number of the next page; empty: the first
	Index int    `json:"index,omitempty"` // number of read records of the page
	Hash  string `json:"hash,omitempty"`  // hash of the last read record of the page

	// Without a cursor and pages: the digest of the response and, after its last record, the headers for a
	// conditional request.
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
		err = errors.New("the cursor, page or ETag of the server is too long for a position")
	}
	return text, err
}

// counted returns the place after a record with this value of cursor.field.
func (p place) counted(value, hash string) place {
	if value != p.Cursor {
		p.Cursor, p.Count, p.Chain = value, 0, ""
	}
	p.Count++
	p.Chain = digest([]byte(p.Chain + hash))
	return p
}

const digestBytes = 12 // of a SHA-256: enough to distinguish the states of a resource

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:digestBytes])
}

func digestOf(d record.Data) (string, error) {
	text, err := d.AppendJSON(nil)
	return digest(text), err
}
