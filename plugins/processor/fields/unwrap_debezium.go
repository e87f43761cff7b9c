package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
)

var debeziumOperations = map[string]record.Operation{
	"c": record.OperationCreate, "u": record.OperationUpdate, "d": record.OperationDelete,
	"r":      record.OperationSnapshot,
	"$unset": record.OperationUpdate,
}

// debezium unwraps the envelope of Debezium. Only steps that cannot fail change r.
func debezium(r *record.Record, ref *fieldref.Ref, budget int) error {
	v, ok, err := ref.Get(r)
	if err != nil {
		return err
	}
	if !ok || v == nil {
		return nil // a tombstone
	}
	envelope, err := objectOf(v, budget)
	if err != nil {
		return fmt.Errorf("cannot unwrap %s: %w", ref, err)
	}
	p, ok := envelope["payload"].(map[string]any)
	if !ok {
		return errors.New("data to be unwrapped doesn't contain a payload field")
	}
	for _, field := range []string{"after", "source", "op"} {
		if _, ok := p[field]; !ok {
			return fmt.Errorf("invalid record: the %q field is missing from debezium payload", field)
		}
	}
	op, ok := debeziumOperations[jsonText(p["op"])]
	if !ok {
		return fmt.Errorf("%q is an invalid operation", jsonText(p["op"]))
	}
	before, err := side(p["before"])
	if err != nil {
		return fmt.Errorf("cannot unwrap before: %w", err)
	}
	after, err := side(p["after"])
	if err != nil {
		return fmt.Errorf("cannot unwrap after: %w", err)
	}
	before, _ = available(before)
	after, unknown := available(after)
	if len(unknown) > 0 && op != record.OperationUpdate {
		return fmt.Errorf("the new row lacks the large value of %s, which the database did not send to Debezium: "+
			"ALTER TABLE … REPLICA IDENTITY FULL in PostgreSQL has it sent",
			strings.Join(unknown, ", "))
	}
	if err := debeziumMetadata(r, p); err != nil {
		return err
	}
	r.Operation, r.Before, r.After = op, before, after
	unwrapKey(r, budget)
	return nil
}

// side returns the state of the record before or after the change.
func side(v any) (record.Data, error) {
	d, ok := fieldref.Data(v)
	if !ok {
		return d, fmt.Errorf("unexpected data type %s", fieldref.Kind(v))
	}
	return d, nil
}

func debeziumMetadata(r *record.Record, p map[string]any) error {
	md := r.Metadata.Clone()
	if readAt, ok, err := nanoseconds(p["ts_ms"]); err != nil {
		return err
	} else if ok {
		md.Set(record.KeyReadAt, readAt)
	}
	for name, v := range p {
		switch name {
		case "after", "before", "op", "source", "ts_ms":
		default:
			flatten(&md, "debezium.", map[string]any{name: v})
		}
	}
	if source, ok := p["source"].(map[string]any); ok {
		flatten(&md, "", source)
	}
	md.Sort()
	r.Metadata = md
	forget(r, record.KeyPayloadSchemaSubject, record.KeyPayloadSchemaVersion)
	return nil
}

// nanoseconds converts a time in milliseconds to nanoseconds, as text.
func nanoseconds(v any) (text string, ok bool, err error) {
	switch v := v.(type) {
	case nil:
		return "", false, nil
	case time.Time:
		return strconv.FormatInt(v.UnixNano(), 10), true, nil
	case float64:
		if math.Abs(v) < math.MaxInt64/1e6 {
			return strconv.FormatInt(int64(v)*1e6, 10), true, nil
		}
	case json.Number: // with a fraction of a millisecond
		if f, err := v.Float64(); err == nil {
			return nanoseconds(f)
		}
	case int64:
		if v < math.MaxInt64/1_000_000 && v > math.MinInt64/1_000_000 {
			return strconv.FormatInt(v*1e6, 10), true, nil
		}
	}
	return "", false, fmt.Errorf("ts_ms is no time in milliseconds but %v", v)
}

// kafkaConnect unwraps the envelope of Kafka Connect.
func kafkaConnect(r *record.Record, ref *fieldref.Ref, budget int) error {
	v, _, err := ref.Get(r)
	if err != nil {
		return err
	}
	envelope, err := objectOf(v, budget)
	if err != nil {
		return fmt.Errorf("cannot unwrap %s: %w", ref, err)
	}
	after, ok := envelope["payload"].(map[string]any)
	if !ok {
		return errors.New("referenced record field doesn't contain a payload field")
	}
	operation := record.OperationCreate
	row, unknown := available(record.Structured(after))
	if len(unknown) > 0 { // only an update has unknown values
		operation = record.OperationUpdate
	}
	r.Operation, r.Before, r.After = operation, record.Data{}, row
	forget(r, record.KeyPayloadSchemaSubject, record.KeyPayloadSchemaVersion)
	unwrapKey(r, budget)
	return nil
}
