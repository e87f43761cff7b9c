package wasmguest

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// Request is an HTTP request to send.
type Request struct {
	Method, URL string
	Header      map[string][]string
	Body        []byte
	Secret      string // name of a secret that the host sends as authorization; empty: none
}

// Response is the response to a Request.
type Response struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// egressErrors are the reasons why the host refuses a request or has no response.
var egressErrors = map[uint32]string{
	4294967286: "egress is not enabled, or the setting sdk.egress.allow is empty",
	4294967285: "sdk.egress.allow or the agent does not allow it",
	4294967284: "the request is invalid",
	4294967283: "the host name cannot be resolved",
	4294967282: "there was no response in time",
	4294967281: "the response is too large",
	4294967280: "the connection failed",
}

func (r Request) encode() []byte {
	b := appendText(appendText(nil, 1, r.Method), 2, r.URL)
	for _, key := range slices.Sorted(maps.Keys(r.Header)) {
		header := appendText(nil, 1, key)
		for _, v := range r.Header[key] {
			header = appendMessage(header, 2, []byte(v))
		}
		b = appendMessage(b, 3, header)
	}
	if len(r.Body) > 0 {
		b = appendMessage(b, 4, r.Body)
	}
	return appendText(b, 5, r.Secret)
}

func parseResponse(b []byte) (Response, error) {
	r := Response{Status: int(varint(b, 1)), Header: map[string][]string{}}
	err := fields(b, func(number protowire.Number, content []byte) error {
		switch number {
		case 2:
			return parseHeader(content, r.Header)
		case 3:
			r.Body = slices.Clone(content)
		}
		return nil
	})
	return r, err
}

func parseHeader(b []byte, into map[string][]string) error {
	var key string
	var values []string
	err := fields(b, func(number protowire.Number, content []byte) error {
		switch number {
		case 1:
			key = string(content)
		case 2:
			values = append(values, string(content))
		}
		return nil
	})
	into[key] = append(into[key], values...)
	return err
}

// varint returns the value of the last varint field with the given number.
func varint(b []byte, wanted protowire.Number) (value uint64) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return value
		}
		length := protowire.ConsumeFieldValue(number, kind, b[n:])
		if length < 0 {
			return value
		}
		if number == wanted && kind == protowire.VarintType {
			value, _ = protowire.ConsumeVarint(b[n:])
		}
		b = b[n+length:]
	}
	return value
}

// parseSchemaAnswer parses CreateSchemaResponse and GetSchemaResponse.
func parseSchemaAnswer(b []byte) (s schema.Schema, err error) {
	err = fields(b, func(number protowire.Number, content []byte) error {
		if number != 1 {
			return nil
		}
		s.Version, s.ID, s.Type = int(varint(content, 2)), int(varint(content, 3)), schema.Type(varint(content, 4))
		return fields(content, func(number protowire.Number, text []byte) error {
			switch number {
			case 1:
				s.Subject = string(text)
			case 5:
				s.Text = string(text)
			}
			return nil
		})
	})
	return s, err
}
