package deadletter

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
)

// originalKey introduces the last member of the JSON form of a record that has another one: the record as it was read.
const originalKey = `,"original":"`

// encodeBoth returns the stored form of a record and of the record as it was read, which may be nil.
func encodeBoth(r, original *record.Record) []byte {
	body := appendExact(encode(*r), r)
	if original == nil {
		return body
	}
	return appendOriginal(body, appendExact(encode(*original), original))
}

// appendOriginal appends the stored form of the record as it was read, which may be nil, to the one of a record.
func appendOriginal(body, original []byte) []byte {
	if original == nil {
		return body
	}
	body = append(body[:len(body)-1], originalKey...)
	body = base64.StdEncoding.AppendEncode(body, original)
	return append(body, `"}`...)
}

// split returns the stored forms of a record and of the record as it was read. original is nil if it is not kept.
func split(whole []byte) (body, original []byte, err error) {
	i := bytes.LastIndex(whole, []byte(originalKey))
	if i < 0 {
		return whole, nil, nil
	}
	text := whole[i+len(originalKey):]
	if bytes.IndexByte(text, '"') != len(text)-len(`"}`) {
		return whole, nil, nil // a field of the record
	}
	if original, err = base64.StdEncoding.AppendDecode(nil, text[:len(text)-len(`"}`)]); err != nil {
		return nil, nil, fmt.Errorf("cannot parse the stored original record: %w", err)
	}
	return append(bytes.Clone(whole[:i]), '}'), original, nil
}

// withoutAnyExact returns the stored form of a record without binary forms.
func withoutAnyExact(whole []byte) []byte {
	body, original, err := split(whole)
	if err != nil {
		return whole
	}
	if original != nil {
		original = withoutExact(original)
	}
	return appendOriginal(withoutExact(body), original)
}
