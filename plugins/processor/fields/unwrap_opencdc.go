package fields

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
)

// openCDC replaces a record by the record in its field. The position stays.
func openCDC(r *record.Record, ref *fieldref.Ref, budget int) error {
	v, ok, err := ref.Get(r)
	if err != nil {
		return err
	}
	if !ok || v == nil {
		return errors.New("field to unmarshal is nil")
	}
	m, err := objectOf(v, budget)
	if err != nil {
		return fmt.Errorf("cannot unwrap %s: %w", ref, err)
	}
	inner, err := openCDCRecord(m)
	if err != nil {
		return fmt.Errorf("failed unmarshalling record: %w", err)
	}
	inner.Position = r.Position
	*r = inner
	return nil
}

func openCDCRecord(m map[string]any) (r record.Record, err error) {
	if r.Operation, err = openCDCOperation(m); err != nil {
		return r, fmt.Errorf("failed unmarshalling operation: %w", err)
	}
	if r.Metadata, err = openCDCMetadata(m); err != nil {
		return r, fmt.Errorf("failed unmarshalling metadata: %w", err)
	}
	if r.Key, err = openCDCData(m["key"]); err != nil {
		return r, fmt.Errorf("failed unmarshalling key: %w", err)
	}
	payload, ok := m["payload"].(map[string]any)
	if !ok {
		return r, errors.New("failed unmarshalling payload: no payload")
	}
	if r.Before, err = openCDCData(payload["before"]); err != nil {
		return r, fmt.Errorf("failed unmarshalling payload.before: %w", err)
	}
	if r.After, err = openCDCData(payload["after"]); err != nil {
		return r, fmt.Errorf("failed unmarshalling payload.after: %w", err)
	}
	return r, nil
}

func openCDCOperation(m map[string]any) (record.Operation, error) {
	v, ok := m["operation"]
	if !ok {
		return 0, errors.New("no operation")
	}
	text, ok := v.(string)
	if !ok {
		return 0, fmt.Errorf("want text, not type %s", fieldref.Kind(v))
	}
	op, err := record.ParseOperation(text)
	if err != nil {
		return 0, fmt.Errorf("invalid operation %q", text)
	}
	return op, nil
}

func openCDCMetadata(m map[string]any) (record.Metadata, error) {
	v, ok := m["metadata"]
	if !ok {
		return nil, errors.New("no metadata")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want an object, not type %s", fieldref.Kind(v))
	}
	md := make(record.Metadata, 0, len(object))
	for k, v := range object {
		if v != nil {
			md.Add(k, jsonText(v))
		}
	}
	md.Sort()
	return md, nil
}

// openCDCData reads the key or one side of the payload: an object, or raw data in base64.
func openCDCData(v any) (record.Data, error) {
	switch v := v.(type) {
	case nil:
		return record.Data{}, nil
	case map[string]any:
		return record.Structured(v), nil
	case []byte:
		return record.Raw(v), nil
	case string:
		b, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			return record.Data{}, fmt.Errorf("raw data is not base64: %w", err)
		}
		return record.Raw(b), nil
	}
	return record.Data{}, fmt.Errorf("unexpected data type %s", fieldref.Kind(v))
}
