package sqlite

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// position is the position of a record. Changes have ascending numbers, and so do runs. Both grow together: rows are
// read between changes.
type position struct {
	DB  string   `json:"db"`            // identifier of the database
	ID  int64    `json:"id"`            // of the last change
	Run int64    `json:"run,omitempty"` // number of the run; all earlier ones are complete
	Key []string `json:"key,omitempty"` // of the last row of the run; without it the run is complete
	N   int64    `json:"n,omitempty"`   // number of rows read in the run
}

func parsePosition(p record.Position) (pos position, err error) {
	if len(p) == 0 {
		return pos, nil
	}
	if err := json.Unmarshal(p, &pos); err != nil || pos.DB == "" {
		return pos, sdk.CannotResume(p, "a position of sqlite")
	}
	return pos, nil
}

func (p *position) append() record.Position {
	b, _ := json.Marshal(p) // cannot fail
	return b
}

// appendChange is append for the usual position, which has no run in progress.
func appendChange(dst []byte, db string, id, run int64) record.Position {
	dst = append(append(append(dst, `{"db":"`...), db...), `","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	if run > 0 {
		dst = strconv.AppendInt(append(dst, `,"run":`...), run, 10)
	}
	return append(dst, '}')
}

// keyText returns a key value in the form that keyValue reads.
func keyText(v any) string {
	switch v := v.(type) {
	case int64:
		return "i" + strconv.FormatInt(v, 10)
	case float64:
		return "f" + strconv.FormatFloat(v, 'g', -1, 64)
	case []byte:
		return "b" + hex.EncodeToString(v)
	case string:
		return "t" + v
	}
	return "n"
}

func keyValue(text string) (any, error) {
	if text == "" {
		return nil, sdk.Permanent(fmt.Errorf("cannot parse the key of a position: it is empty"))
	}
	switch rest := text[1:]; text[0] {
	case 'i':
		return strconv.ParseInt(rest, 10, 64)
	case 'f':
		return strconv.ParseFloat(rest, 64)
	case 'b':
		return hex.DecodeString(rest)
	case 't':
		return rest, nil
	}
	return nil, sdk.Permanent(fmt.Errorf("cannot parse the key of a position: %q", text))
}
