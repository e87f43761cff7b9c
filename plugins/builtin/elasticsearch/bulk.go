package elasticsearch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/spec/texts"
)

// bulk is the dialect of the bulk API: a line with the operation for each record, and a line with the document.
type bulk struct {
	index      *template.Template
	oneIndex   bool               // index does not depend on the record
	id         *template.Template // nil: see settings.ID
	dataStream bool
	timestamp  string // name of the field; empty: none
	message    string
	limit      template.TimeLimit
}

var _ httpsink.Dialect = (*bulk)(nil)

func newBulk(s *settings) (b bulk, err error) {
	b = bulk{dataStream: s.DataStream, timestamp: s.TimestampField, message: s.MessageField}
	if b.timestamp == "" && s.DataStream {
		b.timestamp = "@timestamp"
	}
	if b.index, err = common.ParseTemplate("index", s.Index, checkIndex); err != nil {
		return b, err
	}
	_, b.oneIndex = b.index.Constant()
	b.id, err = parseTemplate("id", s.ID, nil)
	return b, err
}

// Begin implements httpsink.Dialect.
func (b *bulk) Begin(ctx context.Context) { b.limit.Begin(ctx) }

// Encode implements httpsink.Dialect.
func (b *bulk) Encode(dst []byte, r *record.Record, number common.RecordID) (item httpsink.Item, err error) {
	index, err := b.index.Append(&b.limit, nil, r)
	if err != nil {
		return item, fmt.Errorf("cannot execute the template of index: %w", err)
	}
	if err := checkIndex(string(index)); err != nil {
		return item, fmt.Errorf("cannot write the record: %w", err)
	}
	id, err := b.documentID(r, number)
	if err != nil {
		return item, err
	}
	deletes := r.Operation == record.OperationDelete || r.After.IsNone()
	if err := b.canDelete(r, deletes); err != nil {
		return item, err
	}
	operation := "index"
	switch {
	case deletes:
		operation = "delete"
	case b.dataStream:
		operation = "create"
	}
	dst = append(append(dst, `{"`...), operation...)
	dst = record.AppendJSONText(append(dst, `":{"_index":`...), string(index))
	dst = record.AppendJSONText(append(dst, `,"_id":`...), id)
	dst = append(dst, "}}\n"...)
	if !deletes {
		if dst, err = b.appendDocument(dst, r); err != nil {
			return item, err
		}
		dst = append(dst, '\n')
	}
	return httpsink.Item{Text: dst, Key: string(index) + "\x00" + id}, nil
}

// canDelete returns an error for a record that deletes something that has no id, or that cannot be deleted.
func (b *bulk) canDelete(r *record.Record, deletes bool) error {
	switch {
	case !deletes:
		return nil
	case b.dataStream:
		return errors.New("cannot delete the document: documents of a data stream are only added; set dataStream to " +
			"false, or remove deletes with the processor filter")
	case b.id == nil && !hasKey(r):
		return errors.New("cannot delete the document: the record has no structured key; set id to a template " +
			"for the id")
	}
	return nil
}

// hasKey reports whether the record has a key that identifies a document. A raw key may be anything, such as the
// number of a line in a file.
func hasKey(r *record.Record) bool {
	key, ok := r.Key.Structured()
	return ok && len(key) > 0
}

const maxID = 512 // bytes of an id, as the server allows

// documentID returns the id of the record's document.
func (b *bulk) documentID(r *record.Record, number common.RecordID) (string, error) {
	var id []byte
	var err error
	switch {
	case b.id != nil:
		if id, err = b.id.Append(&b.limit, nil, r); err != nil {
			return "", fmt.Errorf("cannot execute the template of id: %w", err)
		}
	case b.dataStream || !hasKey(r):
		return number.String(), nil
	default:
		key, _ := r.Key.Structured()
		if id, err = appendKey(nil, r.Key, key); err != nil {
			return "", fmt.Errorf("cannot make the id of the key: %w", err)
		}
	}
	if len(id) == 0 {
		return "", errors.New("cannot write the record: the id of the document is empty")
	}
	if len(id) > maxID || !utf8.Valid(id) {
		sum := sha256.Sum256(id)
		return hex.EncodeToString(sum[:]), nil
	}
	return string(id), nil
}

// appendKey appends the only value of a key as text, or a key with several values as JSON with sorted names.
func appendKey(dst []byte, data record.Data, key map[string]any) ([]byte, error) {
	if len(key) == 1 {
		for _, value := range key {
			return record.AppendText(dst, value)
		}
	}
	return data.AppendJSON(dst)
}

// appendDocument appends the payload as a JSON object on one line.
func (b *bulk) appendDocument(dst []byte, r *record.Record) ([]byte, error) {
	if at, known := httpsink.TimeOf(r); known && b.timestamp != "" {
		return httpsink.AppendObject(dst, r.After, b.message,
			httpsink.Member{Name: b.timestamp, Text: at.UTC().Format(time.RFC3339Nano)})
	}
	return httpsink.AppendObject(dst, r.After, b.message)
}

// Body implements httpsink.Dialect.
func (*bulk) Body(items []httpsink.Item) []byte {
	return httpsink.Concat(items, "", "", "")
}

// result is the result of an operation.
type result struct {
	Status int
	Error  json.RawMessage
}

// maxFields is the maximum number of fields of a response besides its results.
const maxFields = 16

// Outcomes implements httpsink.Dialect.
func (b *bulk) Outcomes(r *httpclient.Response, n int) ([]error, error) {
	results := make([]error, 0, n)
	d := json.NewDecoder(bytes.NewReader(r.Body))
	if err := delimiter(d, '{'); err != nil {
		return nil, err
	}
	found := false
	for others := 0; d.More(); {
		name, err := d.Token()
		if err != nil {
			return nil, invalid(err)
		}
		if name != "items" || found {
			if others++; others > maxFields {
				return nil, fmt.Errorf("it has more than %d fields", maxFields)
			}
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return nil, invalid(err)
			}
			continue
		}
		found = true
		if results, err = b.results(d, results, n); err != nil {
			return nil, err
		}
	}
	if err := delimiter(d, '}'); err != nil {
		return nil, err
	}
	if len(results) != n {
		return nil, fmt.Errorf("it has %d results for %d operations", len(results), n)
	}
	return results, nil
}

// results decodes at most n results.
func (b *bulk) results(d *json.Decoder, results []error, n int) ([]error, error) {
	if err := delimiter(d, '['); err != nil {
		return nil, err
	}
	for d.More() {
		if len(results) == n {
			return nil, fmt.Errorf("it has more than %d results for as many operations", n)
		}
		outcome, err := b.result(d)
		if err != nil {
			return nil, err
		}
		results = append(results, outcome)
	}
	return results, delimiter(d, ']')
}

// result decodes a result, such as {"index":{"status":201}}, into an outcome.
func (b *bulk) result(d *json.Decoder) (outcome, err error) {
	if err := delimiter(d, '{'); err != nil {
		return nil, err
	}
	operation, err := d.Token()
	if err != nil {
		return nil, invalid(err)
	}
	var r result
	if err := d.Decode(&r); err != nil {
		return nil, invalid(err)
	}
	name, _ := operation.(string)
	if r.Status == 0 {
		return nil, fmt.Errorf("a result of the operation %.64q has no status", name)
	}
	return b.outcome(name, r), delimiter(d, '}')
}

func (b *bulk) outcome(operation string, r result) error {
	reason := newReason(r.Error)
	switch {
	case r.Status/100 == 2,
		r.Status == http.StatusNotFound && operation == "delete", // the document or its index does not exist
		r.Status == http.StatusConflict && operation == "create": // created before
		return nil
	case httpclient.Passes(r.Status):
		return httpsink.Temporary(fmt.Errorf("the server cannot write a document now, with status %d%s", r.Status,
			reason))
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		return sdk.Unavailable(fmt.Errorf("the server does not allow the write, with status %d%s: grant the user, "+
			"token or API key of auth.* the right to create and write the index, and remove blocks of the index",
			r.Status, reason))
	case r.Status == http.StatusNotFound && b.oneIndex:
		return sdk.Unavailable(fmt.Errorf("the server has no such index, with status %d%s: create it, or correct index",
			r.Status, reason))
	}
	return fmt.Errorf("the server refused the document with status %d%s", r.Status, reason)
}

// reason is why an operation failed.
type reason struct{ kind, text string }

// newReason decodes the error of a result. Its form depends on the server.
func newReason(text json.RawMessage) reason {
	var e struct {
		Type, Reason string
		Cause        struct{ Reason string } `json:"caused_by"`
	}
	var plain string
	switch {
	case len(text) == 0 || string(text) == "null":
		return reason{}
	case json.Unmarshal(text, &plain) == nil:
		return reason{"error", plain}
	case json.Unmarshal(text, &e) != nil || e.Type == "":
		return reason{"error", string(text)}
	}
	if e.Cause.Reason != "" && !strings.Contains(e.Reason, e.Cause.Reason) {
		e.Reason += ": " + e.Cause.Reason
	}
	return reason{e.Type, e.Reason}
}

// String returns the reason with a colon before it; "" if there is none.
func (r reason) String() string {
	const most = 500 // bytes
	if r.kind == "" {
		return ""
	}
	return fmt.Sprintf(": %s: %s", texts.Truncate(r.kind, most), texts.Truncate(r.text, most))
}

// delimiter reads a delimiter of JSON.
func delimiter(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return invalid(err)
	}
	if token != want {
		return fmt.Errorf("it is not the response to a bulk request: it has %.64q where %v should be; check url",
			fmt.Sprint(token), want)
	}
	return nil
}

// invalid describes a response that is not JSON, or incomplete.
func invalid(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("it is not the complete response to a bulk request: %w; check url", err)
}
