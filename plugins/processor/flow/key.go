package flow

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
)

// key is a hash of the values of some fields.
type key [16]byte

func (k key) number() uint64 { return binary.BigEndian.Uint64(k[:]) }

// keyOf returns the key of the fields in r, and whether r has any such field.
func keyOf(r *record.Record, fields []*fieldref.Ref) (k key, has bool, err error) {
	var small [256]byte
	text := append(small[:0], '[')
	for _, f := range fields {
		v, ok, err := f.Get(r)
		if err != nil {
			return k, false, err
		}
		has = has || ok && v != nil
		if op, ok := v.(record.Operation); ok {
			v = op.String()
		}
		if text, err = record.AppendValue(text, v); err != nil {
			return k, false, fmt.Errorf("cannot use %s as a key: %w", f, err)
		}
		text = append(text, ',')
	}
	sum := sha256.Sum256(text)
	copy(k[:], sum[:])
	return k, has, nil
}
