package nats

import (
	"context"
	"net/textproto"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	serverSettings

	// Stream to read, of type jetstream.
	Stream string `json:"stream" literal:"true"`
	// Subjects, also with * and >. From a stream, only messages with these subjects are read. Default: all.
	Subjects []string `json:"subjects" literal:"true"`
	// Prefix of the consumer's name at the server; it must be unique. Default: conduit- and digits derived from the
	// connector's id.
	Consumer string `json:"consumer" validate:"regex=^[a-zA-Z0-9_-]{0,64}$"`
	// Starting point in a stream: the oldest message, or messages sent after the connector was created.
	Start string `json:"start" default:"oldest" validate:"inclusion=oldest|newest"`
	// Action when messages of a stream were removed before they were read: stop with an error, or log it and continue
	// with the remaining messages.
	Gap string `json:"gap" default:"stop" validate:"inclusion=stop|continue"`
	// Maximum number of received messages without acknowledgement.
	Maximum int `json:"maxAckPending" default:"5000" validate:"gt=0"`
	// Queue group, of type core: each message goes to one of its members.
	Queue string `json:"queue" literal:"true"`
	// Maximum size in bytes of waiting messages. Beyond it, messages of type core are dropped with a warning.
	BufferSize int64 `json:"buffer.maxBytes" default:"8388608" validate:"gt=0"`
}

func (s *sourceSettings) check() error {
	wrong := func(setting, message string) error { return sdk.SettingError{Setting: setting, Message: message} }
	core := s.Type == "core"
	switch {
	case !core && s.Stream == "":
		return wrong("stream", "is required with type jetstream")
	case core && s.Stream != "":
		return wrong("stream", "needs type jetstream")
	case core && len(s.Subjects) == 0:
		return wrong("subjects", "is required with type core")
	case !core && s.Queue != "":
		return wrong("queue", "needs type core")
	}
	if err := common.CheckItems("subjects", s.Subjects, wrongSubject, overlap); err != nil {
		return err
	}
	return s.serverSettings.check()
}

// receiver receives messages of a stream, or of subjects.
type receiver interface {
	open(ctx context.Context, pos record.Position) error
	read(ctx context.Context) ([]record.Record, error)
	ack(n int)
	close()
	progress() progress.Report
}

// Source reads a stream, or subscribes to subjects.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	receiver receiver // nil before Open
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return s.settings.parse(values)
}

func (s *sourceSettings) parse(values map[string]string) error {
	return common.ParseSettings(values, s, s.check)
}

// Open starts connecting in the background. The source waits for a server that is not available.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	if s.settings.Type == "core" {
		s.receiver = &subscriber{settings: &s.settings}
	} else {
		s.receiver = &stream{settings: &s.settings}
	}
	return s.receiver.open(ctx, pos)
}

// MaxUnacked implements sdk.LimitedSource. Messages of type core are not acknowledged.
func (s *Source) MaxUnacked() int {
	if s.settings.Type == "core" {
		return 0
	}
	return s.settings.Maximum
}

// Read returns messages as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) { return s.receiver.read(ctx) }

// Ack acknowledges the messages at the positions.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.receiver.ack(len(positions))
	return nil
}

// Progress reports the number of unacknowledged messages of the stream.
func (s *Source) Progress() progress.Report {
	if s.receiver == nil {
		return progress.Report{}
	}
	return s.receiver.progress()
}

// Teardown disconnects. The consumer stays at the server.
func (s *Source) Teardown(context.Context) error {
	if s.receiver != nil {
		s.receiver.close()
	}
	return nil
}

// LifecycleOnCreated creates the consumer that marks the start of reading.
func (s *Source) LifecycleOnCreated(ctx context.Context, values map[string]string) error {
	return s.settings.make(ctx, values)
}

// LifecycleOnUpdated removes the consumers of the old settings if the new settings use other consumers.
func (s *Source) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	var old, now sourceSettings
	if old.parse(before) != nil || now.parse(after) != nil || old.Type == "core" {
		return nil // invalid settings created nothing
	}
	if old.URL == now.URL && old.Stream == now.Stream && old.base(ctx) == now.base(ctx) && now.Type == old.Type {
		return nil
	}
	return old.remove(ctx)
}

// LifecycleOnDeleted removes the consumers.
func (s *Source) LifecycleOnDeleted(ctx context.Context, values map[string]string) error {
	var old sourceSettings
	if old.parse(values) != nil || old.Type == "core" {
		return nil
	}
	return old.remove(ctx)
}

// ended cancels a goroutine and waits for its end.
func ended(cancel context.CancelFunc, done <-chan struct{}) {
	if cancel != nil {
		cancel()
		<-done
	}
}

// metadata sets the metadata that both types provide.
func metadata(r *record.Record, subject string, header map[string][]string, at time.Time) {
	r.Metadata.Set(record.KeyCollection, subject)
	if !at.IsZero() {
		r.Metadata.Set(record.KeyCreatedAt, nanoseconds(at))
	}
	for name, values := range header {
		for _, v := range values {
			r.Metadata.Add("nats.header."+name, v)
		}
	}
	r.Metadata.SortRepeated()
	r.Metadata.SetTraceContext(traceHeader(header, record.KeyTraceParent), traceHeader(header, record.KeyTraceState))
}

// traceHeader returns a header of the trace context, "" if there is none. Names of headers are case-sensitive in NATS,
// but some clients write those of HTTP.
func traceHeader(header map[string][]string, name string) string {
	for _, name := range []string{name, textproto.CanonicalMIMEHeaderKey(name)} {
		if values := header[name]; len(values) > 0 {
			return strings.Join(values, ",")
		}
	}
	return ""
}
