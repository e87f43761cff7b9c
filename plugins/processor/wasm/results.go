package wasm

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// result is the result of a guest for one record.
type result struct {
	kind   sdk.FateKind
	record record.Record   // when kept
	pieces []record.Record // when replaced
	err    error           // when refused
}

var errMalformed = errors.New("cannot read the answer of the processor: malformed protobuf")

// parseReply reads the answer to the command process for n records. It stops after n+1 results, which suffice to detect
// too many.
func parseReply(b []byte, n int) (results []result, err error) {
	err = eachField(b, func(number protowire.Number, content []byte) error {
		switch number {
		case responseError:
			return parseError(content)
		case responseProcess:
			results, err = parseResults(content, n+1)
			return err
		}
		return nil
	})
	return results, err
}

// eachField calls f for every length-delimited field of the message.
func eachField(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return errMalformed
			}
			b = b[n:]
			continue
		}
		content, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		if err := f(number, content); err != nil {
			return err
		}
	}
	return nil
}

// parseError reads the message Error.
func parseError(b []byte) error {
	e := &guestError{}
	err := eachField(b, func(number protowire.Number, content []byte) error {
		if number == 2 {
			e.message = strings.ToValidUTF8(texts.Truncate(string(content), maxMessage), "\uFFFD")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return e
}

func parseResults(b []byte, most int) (results []result, err error) {
	answer := reader{left: answerLimits}
	err = eachField(b, func(number protowire.Number, content []byte) error {
		if number != 1 || len(results) == most {
			return nil
		}
		r, err := answer.result(content)
		results = append(results, r)
		return err
	})
	return results, err
}

var errNoResult = errors.New("the processor did not say what becomes of the record")

// result reads the message ProcessedRecord.
func (a *reader) result(b []byte) (result, error) {
	r := result{kind: sdk.Refused, err: errNoResult}
	err := eachField(b, func(number protowire.Number, content []byte) (err error) {
		switch number {
		case 1:
			r = result{kind: sdk.Kept}
			r.record, err = a.record(content)
		case 2:
			r = result{kind: sdk.Filtered}
		case 3:
			r, err = parseErrorRecord(content)
		case 4:
			r = result{kind: sdk.Replaced}
			r.pieces, err = a.pieces(content)
		}
		return err
	})
	return r, err
}

func parseErrorRecord(b []byte) (result, error) {
	refusal := &guestError{message: "the processor refused the record"}
	err := eachField(b, func(number protowire.Number, content []byte) error {
		if number != 1 {
			return nil
		}
		err := parseError(content)
		if errors.As(err, &refusal) {
			return nil
		}
		return err
	})
	return result{kind: sdk.Refused, err: refusal}, err
}

func (a *reader) pieces(b []byte) (records []record.Record, err error) {
	err = eachField(b, func(number protowire.Number, content []byte) error {
		if number != 1 {
			return nil
		}
		r, err := a.record(content)
		if err != nil {
			return fmt.Errorf("cannot read a piece: %w", err)
		}
		records = append(records, r)
		return nil
	})
	return records, err
}
