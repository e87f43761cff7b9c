package record

import "fmt"

// AppendJSON appends r's default JSON form to dst: position, operation, metadata, key and payload with before and
// after, in this order. Raw data is a base64 string, structured data an object with sorted keys, no data null. The text
// equals the output of encoding/json, with HTML escapes, on one line without a line end. Values that JSON cannot
// represent are text: see AppendValue. It fails only if AppendValue does.
func AppendJSON(dst []byte, r *Record) ([]byte, error) {
	dst = append(dst, `{"position":`...)
	dst = appendBase64(dst, r.Position)
	dst = append(dst, `,"operation":"`...)
	dst = append(dst, r.Operation.String()...)
	dst = append(dst, `","metadata":`...)
	dst = appendMetadata(dst, r.Metadata, "null")
	dst, err := appendDatas(dst, r, Data.AppendJSON)
	if err != nil {
		return dst, err
	}
	return append(dst, '}', '}'), nil
}

// appendDatas appends key, before and after, each written by write, without the last two closing braces.
func appendDatas(dst []byte, r *Record, write func(Data, []byte) ([]byte, error)) ([]byte, error) {
	dst = append(dst, `,"key":`...)
	dst, err := write(r.Key, dst)
	if err != nil {
		return dst, fmt.Errorf("cannot write key as JSON: %w", err)
	}
	dst = append(dst, `,"payload":{"before":`...)
	if dst, err = write(r.Before, dst); err != nil {
		return dst, fmt.Errorf("cannot write payload.before as JSON: %w", err)
	}
	dst = append(dst, `,"after":`...)
	if dst, err = write(r.After, dst); err != nil {
		return dst, fmt.Errorf("cannot write payload.after as JSON: %w", err)
	}
	return dst, nil
}

// MarshalJSON returns the output of AppendJSON.
func (r Record) MarshalJSON() ([]byte, error) {
	return AppendJSON(make([]byte, 0, 128+r.Size()*3/2), &r)
}

// AppendJSON appends d as in the JSON form of a record: a base64 string, an object or null.
func (d Data) AppendJSON(dst []byte) ([]byte, error) {
	switch d.kind {
	case raw:
		return appendBase64(dst, d.raw), nil
	case structured:
		return appendObject(dst, d.object(), 0)
	}
	return append(dst, "null"...), nil
}

// MarshalJSON returns the output of AppendJSON.
func (d Data) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil) }

func appendMetadata(dst []byte, m Metadata, ifNil string) []byte {
	if m == nil {
		return append(dst, ifNil...)
	}
	dst = append(dst, '{')
	for i := range m {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, m[i].Key)
		dst = append(dst, ':')
		dst = appendString(dst, m[i].Value)
	}
	return append(dst, '}')
}
