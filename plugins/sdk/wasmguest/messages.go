package wasmguest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// The messages are defined by the proto files in plugins/processor/wasm/proto. They are encoded by hand because the
// generated code would make every module a few megabytes larger and slower to start.

// Field numbers in CommandRequest. The numbers of the responses are greater by one.
const (
	commandError     = 1 // in CommandResponse
	commandSpecify   = 1
	commandConfigure = 2
	commandOpen      = 3
	commandProcess   = 4
	commandTeardown  = 5
)

// command is a CommandRequest.
type command struct {
	kind     protowire.Number
	settings map[string]string
	records  []record.Record
}

var errMalformed = errors.New("malformed protobuf")

// fields calls f for every length-delimited field of the message, and ignores the others.
func fields(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		length := protowire.ConsumeFieldValue(number, kind, b[n:])
		if length < 0 {
			return errMalformed
		}
		if kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(b[n:])
			if err := f(number, content); err != nil {
				return err
			}
		}
		b = b[n+length:]
	}
	return nil
}

func parseCommand(b []byte) (c command, err error) {
	err = fields(b, func(number protowire.Number, content []byte) (err error) {
		if number < commandSpecify || number > commandTeardown {
			return nil
		}
		c.kind = number
		switch number {
		case commandConfigure:
			c.settings, err = parseSettings(content)
		case commandProcess:
			c.records, err = parseRecords(content)
		}
		return err
	})
	if err == nil && c.kind == 0 {
		err = errors.New("unknown command")
	}
	if err != nil {
		return c, fmt.Errorf("cannot read the command: %w", err)
	}
	return c, nil
}

func parseSettings(b []byte) (map[string]string, error) {
	settings := map[string]string{}
	err := fields(b, func(number protowire.Number, entry []byte) error {
		if number != 1 {
			return nil
		}
		var pair [3]string // by field number
		err := fields(entry, func(number protowire.Number, text []byte) error {
			if number == 1 || number == 2 {
				pair[number] = string(text)
			}
			return nil
		})
		settings[pair[1]] = pair[2]
		return err
	})
	return settings, err
}

func parseRecords(b []byte) (records []record.Record, err error) {
	err = fields(b, func(number protowire.Number, content []byte) error {
		if number != 1 {
			return nil
		}
		r, err := record.ParseWire(content)
		records = append(records, r)
		return err
	})
	return records, err
}

func appendMessage(dst []byte, number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), content)
}

func appendText(dst []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), text)
}

func appendEmpty(dst []byte, number protowire.Number) []byte { return appendMessage(dst, number, nil) }

// appendError appends err as a message Error.
func appendError(dst []byte, number protowire.Number, err error) []byte {
	// the code: an error without a kind
	e := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	return appendMessage(dst, number, appendText(e, 2, err.Error()))
}

// specification returns the response to specify.
func (s *server) specification() []byte {
	var b []byte
	for i, text := range []string{s.plugin.Name, s.plugin.Summary, s.plugin.Description, s.plugin.Version,
		s.plugin.Author} {
		b = appendText(b, protowire.Number(i+1), text)
	}
	params := s.processor.Parameters()
	for _, name := range slices.Sorted(maps.Keys(params)) {
		b = appendMessage(b, 6, appendMessage(appendText(nil, 1, name), 2, appendParameter(nil, params[name])))
	}
	return appendMessage(nil, commandSpecify+1, b)
}

func appendParameter(dst []byte, p sdk.Parameter) []byte {
	dst = appendText(appendText(dst, 1, p.Default), 2, p.Description)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 3, protowire.VarintType), uint64(p.Type))
	for _, v := range p.Validations {
		rule := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(v.Type))
		dst = appendMessage(dst, 4, appendText(rule, 2, v.Value))
	}
	return dst
}

// Field numbers in ProcessedRecord.
const (
	resultSingle = 1
	resultFilter = 2
	resultError  = 3
	resultMulti  = 4
)

// appendProcessed appends the response to process.
func appendProcessed(dst []byte, records []record.Record, fates []sdk.Fate) ([]byte, error) {
	var all, one []byte
	for i := range records {
		fate := sdk.Fate{}
		if fates != nil {
			fate = fates[i]
		}
		var err error
		if one, err = appendResult(one[:0], &records[i], fate); err != nil {
			return dst, err
		}
		all = appendMessage(all, 1, one)
	}
	return appendMessage(dst, commandProcess+1, all), nil
}

func appendResult(dst []byte, r *record.Record, fate sdk.Fate) ([]byte, error) {
	switch fate.Kind {
	case sdk.Filtered:
		return appendEmpty(dst, resultFilter), nil
	case sdk.Refused:
		return appendMessage(dst, resultError, appendError(nil, 1, fate.Err)), nil
	case sdk.HeldBack:
		return dst, errHolds
	case sdk.Replaced:
		var pieces []byte
		for i := range fate.Pieces {
			b, err := record.AppendWire(nil, &fate.Pieces[i])
			if err != nil {
				return appendMessage(dst, resultError, appendError(nil, 1, err)), nil
			}
			pieces = appendMessage(pieces, 1, b)
		}
		return appendMessage(dst, resultMulti, pieces), nil
	}
	b, err := record.AppendWire(nil, r)
	if err != nil {
		return appendMessage(dst, resultError, appendError(nil, 1, err)), nil
	}
	return appendMessage(dst, resultSingle, b), nil
}
