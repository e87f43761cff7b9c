package redis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// stream reads a stream after a given entry. A position is the id of an entry, followed by a colon and the number of
// entries added to the stream up to that entry, if known. The number serves to calculate how many entries were trimmed.
type stream struct {
	settings *sourceSettings
	log      *slog.Logger
	latest   *progress.Latest
	skips    progress.Skips // safe for concurrent use

	at     entryID
	number int64 // entries added up to at; -1: unknown
	begun  bool  // reading has reached at; false: reading starts at at

	asked bool // the request for the entries after at is sent, and its answer not received
}

type entryID struct{ ms, seq uint64 }

func (id entryID) String() string { return string(id.append(nil)) }

func (id entryID) append(dst []byte) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(dst, id.ms, 10), '-'), id.seq, 10)
}

func (id entryID) compare(o entryID) int {
	return cmp.Or(cmp.Compare(id.ms, o.ms), cmp.Compare(id.seq, o.seq))
}

func parseID(text string) (id entryID, err error) {
	ms, seq, _ := strings.Cut(text, "-")
	if id.ms, err = strconv.ParseUint(ms, 10, 64); err == nil && seq != "" {
		id.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	return id, err
}

func newStream(
	settings *sourceSettings, log *slog.Logger, latest *progress.Latest, pos record.Position,
) (*stream, error) {
	s := &stream{settings: settings, log: log, latest: latest, number: -1}
	if len(pos) == 0 {
		return s, nil
	}
	id, number, numbered := strings.Cut(string(pos), ":")
	var err error
	if s.at, err = parseID(id); err == nil && numbered {
		s.number, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil {
		return nil, sdk.CannotResume(pos, "a position of a stream of redis")
	}
	s.begun = true
	return s, nil
}

// state is the state of a stream at the server.
type state struct {
	exists      bool
	length      int64
	added       int64 // -1: the server does not count them
	first, last entryID
}

// trimmed returns the number of removed entries; -1 if unknown.
func (s *state) trimmed() int64 {
	if s.added < 0 {
		return -1
	}
	return s.added - s.length
}

func (s *stream) connected(_ context.Context, c redis.Conn) error {
	s.asked = false
	if s.begun || s.settings.Start == "oldest" {
		return nil
	}
	now, _, err := s.inspect(c)
	if err != nil {
		return err
	}
	s.at, s.number, s.begun = now.last, now.added, now.exists
	return nil
}

// ask requests the state of the stream and the entries after at, both from the same moment.
func (s *stream) ask(c redis.Conn, at entryID) error {
	key := s.settings.Key[0]
	for _, command := range [questions]struct {
		name string
		args []any
	}{
		{"MULTI", nil}, {"EXISTS", []any{key}}, {"XINFO", []any{"STREAM", key}},
		{"XREAD", []any{"COUNT", s.settings.Maximum, "STREAMS", key, at.String()}}, {"EXEC", nil},
	} {
		if err := c.Send(command.name, command.args...); err != nil {
			return err
		}
	}
	s.asked = true
	return nil
}

const questions = 5 // number of commands that ask sends

// inspect returns the state of the stream and the entries after s.at, both as of the request.
func (s *stream) inspect(c redis.Conn) (now state, entries []any, err error) {
	if !s.asked {
		if err := s.ask(c, s.at); err != nil {
			return now, nil, err
		}
	}
	replies, err := redis.Values(last(c, questions))
	s.asked = false
	if err != nil || len(replies) != 3 {
		return now, nil, cmp.Or(err, fmt.Errorf("the server sent %d replies", len(replies)))
	}
	if n, _ := redis.Int(replies[0], nil); n == 0 {
		return now, nil, nil
	}
	if now, err = parseState(replies[1]); err != nil {
		return now, nil, err
	}
	entries, err = entriesOf(replies[2])
	return now, entries, err
}

// last returns the last of n replies.
func last(c redis.Conn, n int) (reply any, err error) {
	if err := c.Flush(); err != nil {
		return nil, err
	}
	for range n {
		if reply, err = c.Receive(); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

func parseState(reply any) (now state, err error) {
	now = state{exists: true, added: -1}
	values, err := redis.Values(reply, nil)
	for i := 0; i+1 < len(values) && err == nil; i += 2 {
		name, _ := redis.String(values[i], nil)
		switch name {
		case "length":
			now.length, err = redis.Int64(values[i+1], nil)
		case "entries-added":
			now.added, err = redis.Int64(values[i+1], nil)
		case "last-generated-id":
			now.last, err = idOf(values[i+1])
		case "first-entry":
			if entry, ok := values[i+1].([]any); ok && len(entry) > 0 {
				now.first, err = idOf(entry[0])
			}
		}
	}
	return now, err
}

func idOf(reply any) (entryID, error) {
	text, err := redis.Bytes(reply, nil)
	if err != nil {
		return entryID{}, err
	}
	return parseID(string(text))
}

// entriesOf returns the entries in the reply to XREAD for one stream; nil if there are none.
func entriesOf(reply any) ([]any, error) {
	streams, err := redis.Values(reply, nil)
	if err != nil || len(streams) == 0 {
		return nil, ignoreNil(err)
	}
	one, err := redis.Values(streams[0], nil)
	if err != nil || len(one) != 2 {
		return nil, err
	}
	return redis.Values(one[1], nil)
}

func ignoreNil(err error) error {
	if err == redis.ErrNil { //nolint:errorlint // it is never wrapped
		return nil
	}
	return err
}

func (s *stream) read(_ context.Context, c redis.Conn) ([]record.Record, error) {
	now, entries, err := s.inspect(c)
	if err != nil {
		return nil, err
	}
	if err := s.gap(&now); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		s.report(&now)
		_, err := redis.DoWithTimeout(c, blockTime+s.settings.Timeout, "XREAD", "BLOCK", blockTime.Milliseconds(),
			"COUNT", 1, "STREAMS", s.settings.Key[0], s.at.String())
		return nil, err
	}
	if err := s.askAhead(c, entries); err != nil {
		return nil, err
	}
	if s.number < 0 {
		s.number = now.trimmed()
	}
	records := make([]record.Record, len(entries))
	arena := record.NewArena(len(entries), entryFields, idText)
	positions := make([]byte, 0, len(entries)*2*idText)
	for i, entry := range entries {
		if records[i], err = s.record(entry, arena); err != nil {
			return nil, err
		}
		if s.number >= 0 {
			s.number++
		}
		if s.at.compare(now.last) == 0 {
			s.number = now.added
		}
		start := len(positions)
		positions = s.appendPosition(positions)
		records[i].Position = positions[start:len(positions):len(positions)]
	}
	s.begun = true
	s.report(&now)
	return records, nil
}

// askAhead requests the entries after these if there are probably more, so that the server works meanwhile.
func (s *stream) askAhead(c redis.Conn, entries []any) error {
	if len(entries) < s.settings.Maximum {
		return nil
	}
	end, err := redis.Values(entries[len(entries)-1], nil)
	if err != nil || len(end) == 0 {
		return err
	}
	at, err := idOf(end[0])
	if err != nil {
		return err
	}
	if err := s.ask(c, at); err != nil {
		return err
	}
	return c.Flush()
}

func (s *stream) appendPosition(dst []byte) []byte {
	dst = s.at.append(dst)
	if s.number < 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, ':'), s.number, 10)
}

// gap returns an error when unread entries are gone.
func (s *stream) gap(now *state) error {
	if !s.begun {
		return nil
	}
	key := s.settings.Key[0]
	var err error
	switch trimmed := now.trimmed(); {
	case !now.exists:
		err = fmt.Errorf("entries may have been missed: stream %q, which the source has read up to "+
			"%s, no longer exists",
			key, s.at)
	case now.last.compare(s.at) < 0:
		err = fmt.Errorf("entries may have been missed: stream %q ends with %s, before the last entry read, %s: it "+
			"was recreated, or the server lost its end", key, now.last, s.at)
	case now.length > 0 && now.first.compare(s.at) <= 0 || s.number < 0 || trimmed <= s.number:
		return nil
	default:
		err = fmt.Errorf("up to %d entries of stream %q between %s and %s were missed, because they were trimmed "+
			"before they were read", trimmed-s.number, key, s.at, now.first)
	}
	if s.settings.Gap != "continue" {
		return gapError{fmt.Errorf("%w. To continue with the remaining entries, set gap to continue", err)}
	}
	s.log.Error("continuing without the missing entries", "err", err)
	s.skips.Add(fmt.Sprintf("entries of stream %s after %s", key, s.at), err)
	if !now.exists || now.last.compare(s.at) < 0 {
		s.at, s.begun = entryID{}, false
	}
	s.number = now.trimmed()
	return nil
}

func (s *stream) report(now *state) {
	r := progress.Report{At: time.Now()}
	if behind := now.added - s.number; now.added >= 0 && s.number >= 0 && behind >= 0 {
		r.Records = &behind
	}
	s.latest.Set(r)
}

const (
	entryFields = 2  // for the metadata
	idText      = 20 // length of most ids, in bytes
)

// record converts an entry to a record, and advances s.at to it.
func (s *stream) record(reply any, arena *record.Arena) (r record.Record, err error) {
	entry, err := redis.Values(reply, nil)
	if err != nil || len(entry) != 2 {
		return r, fmt.Errorf("cannot read an entry after %s: %w", s.at, err)
	}
	if s.at, err = idOf(entry[0]); err != nil {
		return r, err
	}
	fields, err := redis.Values(entry[1], nil)
	if err == nil {
		r.After, err = payload(fields, s.settings.Field)
	}
	if err != nil {
		return r, fmt.Errorf("cannot read entry %s: %w", s.at, err)
	}
	var buf [2 * idText]byte
	r.Operation, r.Metadata = record.OperationCreate, arena.Metadata(entryFields)
	r.Metadata.Set(record.KeyCollection, s.settings.Key[0])
	r.Metadata.Set("redis.id", arena.String(s.at.append(buf[:0])))
	return r, nil
}

// payload returns the value of a field; without a field it returns all fields as an object.
func payload(fields []any, field string) (record.Data, error) {
	var object map[string]any
	if field == "" {
		object = make(map[string]any, len(fields)/2)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		name, err := redis.Bytes(fields[i], nil)
		if err != nil {
			return record.Data{}, err
		}
		value, err := redis.Bytes(fields[i+1], nil)
		switch {
		case err != nil:
			return record.Data{}, err
		case object != nil:
			record.AddRepeated(object, record.ValidName(string(name)), textOrBytes(value))
		case string(name) == field:
			return record.Raw(value), nil
		}
	}
	if object == nil {
		return record.Raw(nil), nil
	}
	return record.Structured(object), nil
}

func textOrBytes(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return b
}

func (s *stream) ack(context.Context, int) error { return nil }

func (s *stream) close(context.Context) {}
