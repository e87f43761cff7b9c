package exec

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// place is the state of reading. Its JSON form is the position of a record.
type place struct {
	Seq   int64           `json:"n"`               // number of the record, from 1
	State json.RawMessage `json:"state,omitempty"` // state of a Singer tap before the record
}

func (p *place) parse(pos record.Position) error {
	if len(pos) == 0 {
		return nil
	}
	if err := json.Unmarshal(pos, p); err != nil || p.Seq <= 0 {
		return sdk.CannotResume(pos, "a position of exec")
	}
	return nil
}

func (p *place) position() (record.Position, error) { return json.Marshal(p) }

// record converts a line to a record and advances the place. It returns false for a line without a record.
func (p *place) record(format string, line []byte) (record.Record, bool, error) {
	r := record.Record{Operation: record.OperationCreate}
	switch format {
	case "json":
		object, err := parseObject(line)
		if err != nil {
			return r, false, fmt.Errorf("the command prints no JSON object: %q: %w", texts.Truncate(string(line), 200),
				err)
		}
		r.After = record.Structured(object)
	case "singer":
		if ok, err := p.singer(&r, line); !ok || err != nil {
			return r, false, err
		}
	default:
		r.After = record.Raw(line)
	}
	p.Seq++
	if r.Key.IsNone() {
		r.Key = record.Raw(strconv.AppendInt(nil, p.Seq, 10))
	}
	pos, err := p.position()
	r.Position = pos
	return r, err == nil, err
}

// singer parses a Singer message. A RECORD message becomes a record; the value of the last STATE message is kept; other
// messages are ignored because records contain their information.
func (p *place) singer(r *record.Record, line []byte) (bool, error) {
	var m struct {
		Type   string          `json:"type"`
		Stream string          `json:"stream"`
		Record json.RawMessage `json:"record"`
		Value  json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(line, &m); err != nil || m.Type == "" {
		return false, fmt.Errorf("the command prints no Singer message: %q", texts.Truncate(string(line), 200))
	}
	switch m.Type {
	case "STATE":
		p.State = m.Value
		return false, nil
	case "RECORD":
		object, err := parseObject(m.Record)
		if err != nil {
			return false, fmt.Errorf("the command prints a Singer record that is no object: %w", err)
		}
		r.After = record.Structured(object)
		r.Metadata.Set(record.KeyCollection, m.Stream)
		return true, nil
	}
	return false, nil
}

// parseObject parses a JSON object by the same rules as a record.
func parseObject(b []byte) (map[string]any, error) {
	var r record.Record
	wrapped := append(append([]byte(`{"payload":{"after":`), b...), "}}"...)
	if err := json.Unmarshal(wrapped, &r); err != nil {
		return nil, err
	}
	object, ok := r.After.Structured()
	if !ok {
		return nil, fmt.Errorf("it is no object")
	}
	return object, nil
}
