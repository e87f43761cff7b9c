package spoollog

import "github.com/conduit-agent/conduit/plugins/record"

// Body returns the encoded records of a frame.
func Body(f Frame) []byte { return f.frame.body() }

// Decode decodes a body.
func Decode(body []byte, count int) ([]record.Record, error) {
	f := frame{count: count, data: append(make([]byte, headerSize), body...)}
	return f.records(nil)
}
