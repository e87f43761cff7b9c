package record

// Map returns r as structured data: position, operation, metadata, key and payload
// with before and after. It shares r's bytes and objects.
func (r Record) Map() map[string]any {
	metadata := make(map[string]any, len(r.Metadata))
	for _, f := range r.Metadata {
		metadata[f.Key] = f.Value
	}
	return map[string]any{
		"position":  []byte(r.Position),
		"operation": r.Operation.String(),
		"metadata":  metadata,
		"key":       r.Key.value(),
		"payload": map[string]any{
			"before": r.Before.value(),
			"after":  r.After.value(),
		},
	}
}

// value returns the content of d: []byte, map[string]any or nil.
func (d Data) value() any {
	switch d.kind {
	case raw:
		return d.raw
	case structured:
		return d.object()
	}
	return nil
}
