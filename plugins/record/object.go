package record

import (
	"sync"
	"sync/atomic"
)

// object is a google.protobuf.Struct that is decoded on first use, because most processors see only a part of a record
// and the rest passes unchanged. It was validated, so decoding cannot fail.
type object struct {
	in     *wireParser
	lo, hi int

	mu      sync.Mutex // held while decoding
	decoded atomic.Bool
	members map[string]any // set by decoding; from then on it replaces the encoded form and may be changed
}

// get returns the decoded object.
func (o *object) get() map[string]any {
	if o.decoded.Load() {
		return o.members
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.decoded.Load() {
		m := make(map[string]any)
		_ = o.in.object(o.field(), m, 0)
		o.members = m
		o.decoded.Store(true)
	}
	return o.members
}

// wire returns the encoded object; false if it was decoded.
func (o *object) wire() ([]byte, bool) {
	if o == nil || o.decoded.Load() {
		return nil, false
	}
	return o.in.b[o.lo:o.hi], true
}

func (o *object) field() *fields { return &fields{lo: o.lo, hi: o.hi} }

// clone returns data that shares no mutable data with o.
func (o *object) clone() Data {
	if _, ok := o.wire(); ok {
		return Data{encoded: &object{in: o.in, lo: o.lo, hi: o.hi}, kind: structured}
	}
	m, _ := CloneValue(o.members).(map[string]any)
	return Structured(m)
}
