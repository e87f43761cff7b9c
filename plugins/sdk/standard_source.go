package sdk

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/notify"
)

type sourceOptions struct {
	// Maximum number of records in a batch. 0: batches as the connector reads them. Without sdk.batch.delay, a batch
	// waits until it is full, or until the source cannot read more without acknowledgements.
	BatchSize int `json:"sdk.batch.size" default:"0" validate:"gt=-1"`
	// Maximum time to wait for more records after the first record of a batch.
	BatchDelay time.Duration `json:"sdk.batch.delay" default:"0"`
	// Whether schema subjects have a context as prefix.
	ContextEnabled bool `json:"sdk.schema.context.enabled" default:"true"`
	// Context of schema subjects. Empty: the id of the connector.
	ContextName string `json:"sdk.schema.context.name"`
	// Type of schemas.
	ExtractType string `json:"sdk.schema.extract.type" default:"avro" validate:"inclusion=avro"`
	// Whether structured payloads get a schema.
	PayloadEnabled bool `json:"sdk.schema.extract.payload.enabled" default:"true"`
	// Subject of payload schemas, after the collection of the record.
	PayloadSubject string `json:"sdk.schema.extract.payload.subject" default:"payload"`
	// Whether structured keys get a schema.
	KeyEnabled bool `json:"sdk.schema.extract.key.enabled" default:"true"`
	// Subject of key schemas, after the collection of the record.
	KeySubject string `json:"sdk.schema.extract.key.subject" default:"key"`
}

// standardSource is a source wrapped in the standard middleware.
type standardSource struct {
	Source
	params  *standardParameters
	options sourceOptions
	collect *collector // nil without batching

	collecting atomic.Pointer[collector] // collect, for Finish
	extract    *extractor                // nil without schemas
}

func (s *standardSource) Parameters() Parameters {
	return maps.Clone(s.params.parametersOf(s.Source).all)
}

func (s *standardSource) Configure(ctx context.Context, settings map[string]string) error {
	own, err := split(s.params.parametersOf(s.Source).all, settings, &s.options)
	if err != nil {
		return err
	}
	if err := checkDelay(s.options.BatchDelay); err != nil {
		return err
	}
	return s.Source.Configure(ctx, own)
}

func (s *standardSource) Open(ctx context.Context, pos record.Position) error {
	if o := s.options; o.BatchSize > 0 || o.BatchDelay > 0 {
		s.collect = &collector{read: s.readAgain, size: o.BatchSize, delay: o.BatchDelay, limit: s.MaxUnacked(),
			stalls: notify.NewSignal()}
		s.collecting.Store(s.collect)
	}
	s.extract = newExtractor(EnvFrom(ctx), s.options)
	return s.Source.Open(ctx, pos)
}

func (s *standardSource) Read(ctx context.Context) (records []record.Record, err error) {
	if s.collect != nil {
		records, err = s.collect.Read(ctx)
	} else {
		records, err = s.readAgain(ctx)
	}
	if err != nil || s.extract == nil {
		return records, err
	}
	if err := s.extract.attach(ctx, records); err != nil {
		return nil, err
	}
	return records, nil
}

// Limits of the pause after ErrBackoffRetry.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// readAgain reads until there are records. An empty result counts as ErrBackoffRetry.
func (s *standardSource) readAgain(ctx context.Context) ([]record.Record, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		records, err := s.Source.Read(ctx)
		if errors.Is(err, ErrBackoffRetry) {
			err = nil
		}
		if len(records) > 0 || err != nil {
			return records, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Progress implements Reporter. It returns the zero Report if the source is no Reporter.
func (s *standardSource) Progress() progress.Report {
	if r, ok := s.Source.(Reporter); ok {
		return r.Progress()
	}
	return progress.Report{}
}

// MaxUnacked implements LimitedSource.
func (s *standardSource) MaxUnacked() int {
	l, ok := s.Source.(LimitedSource)
	if !ok {
		return 0
	}
	return l.MaxUnacked()
}

// Finish implements FinishingSource. It also releases the gathered batch.
func (s *standardSource) Finish() {
	if f, ok := s.Source.(FinishingSource); ok {
		f.Finish()
	}
	if c := s.collecting.Load(); c != nil {
		c.stalls.Notify()
	}
}

func (s *standardSource) Ack(ctx context.Context, positions []record.Position) error {
	if err := s.Source.Ack(ctx, positions); err != nil {
		return err
	}
	if s.collect != nil {
		s.collect.unacked.Add(-int64(len(positions)))
	}
	return nil
}

// Notes implements Noter.
func (s *standardSource) Notes(ctx context.Context) []string {
	if n, ok := s.Source.(Noter); ok {
		return n.Notes(ctx)
	}
	return nil
}

// IgnoresAcks implements AckIgnorer.
func (s *standardSource) IgnoresAcks() bool {
	i, ok := s.Source.(AckIgnorer)
	return ok && i.IgnoresAcks()
}

func (s *standardSource) Teardown(ctx context.Context) error {
	if s.collect != nil {
		s.collect.end(ctx)
	}
	return s.Source.Teardown(ctx)
}

func (s *standardSource) lifecycle() lifecycle {
	return lifecycle{s.Source, s.params.parametersOf(s.Source).own}
}

func (s *standardSource) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	return s.lifecycle().created(ctx, settings)
}

func (s *standardSource) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	return s.lifecycle().updated(ctx, before, after)
}

func (s *standardSource) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	return s.lifecycle().deleted(ctx, settings)
}
