// Package rest has the words that only the REST API uses, shared by its server and its client: the bodies of requests
// and responses, and errors with their codes. Bodies also contain the words of package spec.
//
// The body of a request to create or replace a resource has the shape of the body that reading it returns. Fields that
// only the agent sets, such as state and createdAt, are ignored in requests, so that a resource can be read, edited and
// written back.
//
// The first paragraph of the comment of a field is its description in the OpenAPI document; run go generate ./... after
// a change.
package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// HeaderGeneration is the header of the answer to a write with the resulting generation of the pipeline; for several
// pipelines, it has the generations in their order.
const HeaderGeneration = "Conduit-Generation"

// Count is a number that JSON carries as text, as it does every 64-bit number of this
// API. Requests may also carry it as a number.
type Count uint64

// MarshalJSON writes c as text.
func (c Count) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(c), 10)), nil
}

// UnmarshalJSON reads a number or its text, from 0 to 2147483647.
func (c *Count) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if text != "null" && err != nil {
		// the decoder adds more
		return &json.UnmarshalTypeError{Value: fmt.Sprintf("%.20q", text), Type: reflect.TypeFor[Count]()}
	}
	*c = Count(n)
	return nil
}

// Reload is a request to read the pipeline files.
type Reload struct {
	// Withdraw the pipelines of missing files even if all files are missing.
	Prune bool `json:"prune"`
}

// Empty is an empty body of an answer.
type Empty struct{}
