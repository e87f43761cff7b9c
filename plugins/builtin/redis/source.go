package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	serverSettings

	// Type of key: a stream, a list or channels.
	Type string `json:"type" default:"stream" validate:"inclusion=stream|list|pubsub"`
	// Stream or list to read, or channels to subscribe to, also as patterns such as orders.*.
	Key []string `json:"key" literal:"true" validate:"required"`
	// Field of a stream entry whose value becomes the payload. Default: all fields as an object.
	Field string `json:"field" literal:"true"`
	// Starting point in a stream without a position: the oldest entry or new entries.
	Start string `json:"start" default:"oldest" validate:"inclusion=oldest|newest"`
	// Action when stream entries were removed before they were read: stop with an error, or log it and continue with
	// the remaining entries.
	Gap string `json:"gap" default:"stop" validate:"inclusion=stop|continue"`
	// List that holds elements until they are acknowledged; each source needs its own. Default: the key, followed by
	// :conduit: and digits derived from the connector's id.
	Processing string `json:"processing" literal:"true"`
	// Maximum number of entries or elements in one read.
	Maximum int `json:"batch" default:"500" validate:"gt=0"`
}

func (s *sourceSettings) check() error {
	switch {
	case s.Type != "pubsub" && len(s.Key) != 1:
		return sdk.SettingError{Setting: "key", Message: "must be one key, unless type is pubsub"}
	case s.Type != "list" && s.Processing != "":
		return sdk.SettingError{Setting: "processing", Message: "needs type list"}
	case s.Type != "stream" && s.Field != "":
		return sdk.SettingError{Setting: "field", Message: "needs type stream"}
	case s.Processing != "" && s.Processing == s.Key[0]:
		return sdk.SettingError{Setting: "processing", Message: "must differ from key"}
	}
	if err := common.CheckItems("key", s.Key, s.wrongKey, overlap); err != nil {
		return err
	}
	return s.serverSettings.check()
}

// Source reads a stream, a list, or channels.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	reader   reader // nil before Open
	link     link
}

// reader reads one type of key.
type reader interface {
	// connected prepares a new connection.
	connected(ctx context.Context, c redis.Conn) error
	// read waits a short time for records. An error ends the connection, unless it is a gapError.
	read(ctx context.Context, c redis.Conn) ([]record.Record, error)
	ack(ctx context.Context, n int) error
	close(ctx context.Context)
}

// gapError reports missed entries.
type gapError struct{ error }

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, s.settings.check)
}

// Open prepares the source. Read connects, and waits for a server that is not available.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	s.link = link{settings: &s.settings.serverSettings, log: sdk.Logger(ctx)}
	switch s.settings.Type {
	case "stream":
		s.reader, err = newStream(&s.settings, sdk.Logger(ctx), &s.link.latest, pos)
	case "list":
		s.reader, err = newList(ctx, &s.settings, sdk.Logger(ctx), &s.link.latest, pos)
	default:
		s.reader, err = newChannels(&s.settings, pos)
	}
	return err
}

// Read returns entries, elements or messages as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	return s.link.read(ctx, s.reader)
}

// link is a connection that reconnects after a loss.
type link struct {
	settings *serverSettings
	log      *slog.Logger
	conn     redis.Conn // nil when not connected
	again    common.Backoff
	latest   progress.Latest
}

func (l *link) read(ctx context.Context, from reader) ([]record.Record, error) {
	for {
		records, err := l.try(ctx, from)
		switch {
		case ctx.Err() != nil:
			l.close()
			return nil, ctx.Err()
		case errors.As(err, new(gapError)):
			return nil, err
		case isDenial(err), isReply(err) && !passes(err):
			l.close()
			return nil, fmt.Errorf("the server refused the read: %w", err)
		case err != nil:
			l.close()
			l.latest.Note(err.Error())
			l.log.Warn("cannot read, reconnecting", "err", err)
			if err := l.again.Wait(ctx); err != nil {
				return nil, err
			}
		default:
			l.again = common.Backoff{}
			if len(records) > 0 {
				return records, nil
			}
		}
	}
}

func (l *link) try(ctx context.Context, from reader) ([]record.Record, error) {
	if l.conn == nil {
		c, err := l.settings.dial(ctx)
		if err != nil {
			return nil, err
		}
		if err := from.connected(ctx, c); err != nil {
			_ = c.Close()
			return nil, err
		}
		l.conn = c
		l.latest.Note("")
	}
	c := l.conn // the function may run after read has returned
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	return from.read(ctx, c)
}

func (l *link) close() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// blockTime is the time that the server waits for something to read before it answers.
const blockTime = 5 * time.Second

// Progress reports the number of unread entries of a stream, or elements of a list.
func (s *Source) Progress() progress.Report {
	r := s.link.latest.Report()
	if from, ok := s.reader.(*stream); ok {
		r.Skipped = from.skips.List()
	}
	return r
}

// Ack removes acknowledged elements of a list.
func (s *Source) Ack(ctx context.Context, positions []record.Position) error {
	return s.reader.ack(ctx, len(positions))
}

// Teardown disconnects.
func (s *Source) Teardown(ctx context.Context) error {
	if s.reader != nil {
		s.link.close()
		s.reader.close(ctx)
	}
	return nil
}

// LifecycleOnUpdated moves the elements of the old processing list back if the new settings use another list.
func (s *Source) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	var old, now sourceSettings
	if sdk.Decode(before, &old) != nil || sdk.Decode(after, &now) != nil {
		return nil // invalid settings left nothing at the server
	}
	if old.Type != "list" || now.Type == "list" && old.URL == now.URL && old.processing(ctx) == now.processing(ctx) {
		return nil
	}
	return old.giveBack(ctx)
}

// LifecycleOnDeleted moves unacknowledged elements back to their list.
func (s *Source) LifecycleOnDeleted(ctx context.Context, values map[string]string) error {
	var settings sourceSettings
	if sdk.Decode(values, &settings) != nil || settings.Type != "list" {
		return nil
	}
	return settings.giveBack(ctx)
}
