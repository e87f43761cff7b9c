// Package generator provides a source that generates records, for trials, load tests and demonstrations of pipelines.
package generator

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const version = "v1.0.0"

// Connector returns the connector with its source.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "generator",
		Summary: "Makes up records.",
		Description: "A source that makes up raw or structured records at a given rate, for trying out and measuring " +
			"pipelines.",
		Version:   version,
		Author:    "conduit",
		NewSource: func() sdk.Source { return &Source{} },
	}
}

// Source generates records. Positions are the numbers of the records in decimal, from "1". A source opened at a
// position continues with the next number.
type Source struct {
	sdk.SourceBase

	recordCount int64 // 0: unlimited
	collections []collection
	limiter     rateLimiter
	largest     int // size of the largest file, in bytes

	made   int64 // number of the last record
	batch  batch
	random *rand.Rand
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters { return sdk.Described(settings{}, descriptions) }

// Configure validates and stores the settings.
func (s *Source) Configure(ctx context.Context, values map[string]string) error {
	var c settings
	if err := errors.Join(checkTypes(values), sdk.Decode(values, &c)); err != nil {
		return err
	}
	collections, err := c.check()
	if err != nil {
		return err
	}
	if err := c.checkPaths(ctx); err != nil {
		return err
	}
	s.recordCount, s.collections = c.RecordCount, collections
	s.limiter = rateLimiter{Interval: c.interval(), Generate: c.Burst.GenerateTime, Sleep: c.Burst.SleepTime}
	return nil
}

// Open loads the files to generate from, and continues counting after pos.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	if len(pos) > 0 {
		n, err := strconv.ParseInt(string(pos), 10, 64)
		if err != nil || n < 0 {
			return sdk.CannotResume(pos, "the number of a record")
		}
		s.made = n
	}
	for i := range s.collections {
		if err := s.collections[i].payload.load(ctx); err != nil {
			return err
		}
		if p, ok := s.collections[i].payload.(*filePayload); ok {
			s.largest = max(s.largest, p.size())
		}
	}
	s.random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	s.limiter.Start = time.Now()
	return nil
}

// Read returns the due records. After the last record of recordCount it waits until ctx ends.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := int64(batchRecords)
	if s.recordCount > 0 {
		limit = min(limit, s.recordCount-s.made)
	}
	if limit <= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n, err := s.limiter.wait(ctx, int(limit))
	if err != nil {
		return nil, err
	}
	most := sdk.BatchBytes(ctx, batchBytes)
	if s.largest > most {
		if err := sdk.Reserve(ctx, 2*s.largest); err != nil { // an update has two payloads
			return nil, err
		}
	}
	records := s.make(n, most)
	s.limiter.took(len(records))
	return records, nil
}

// IgnoresAcks implements sdk.AckIgnorer: the source keeps no generated records.
func (s *Source) IgnoresAcks() bool { return true }

// make returns n records, or fewer if they are large: after most bytes it adds no further record.
func (s *Source) make(n, most int) []record.Record {
	b := &s.batch
	b.start(n, most, s.random)
	for range n {
		s.made++
		c := &s.collections[0]
		if len(s.collections) > 1 {
			c = &s.collections[s.random.IntN(len(s.collections))]
		}
		b.add(s.made, c)
		if b.bytes >= most {
			break
		}
	}
	return b.finish()
}

// collection is one kind of record.
type collection struct {
	name       string // empty for records without a collection
	operations []record.Operation
	payload    payload
}

// payload generates the content of records.
type payload interface {
	// load loads data from outside the process.
	load(ctx context.Context) error
	// data returns new content. The caller owns it.
	data(b *batch) record.Data
}

// structuredPayload generates objects.
type structuredPayload []field

func (p structuredPayload) load(context.Context) error { return nil }

func (p structuredPayload) data(b *batch) record.Data {
	m := make(map[string]any, len(p))
	for i := range p {
		m[p[i].name] = b.value(p[i].kind)
	}
	return record.Structured(m)
}

// rawPayload generates the JSON text of the same objects.
type rawPayload []field

func (p rawPayload) load(context.Context) error { return nil }

func (p rawPayload) data(b *batch) record.Data {
	start := len(b.text)
	b.text = append(b.text, '{')
	for i := range p {
		if i > 0 {
			b.text = append(b.text, ',')
		}
		b.text = append(b.text, p[i].quoted...)
		b.text = append(b.text, ':')
		b.text = b.appendJSON(b.text, p[i].kind)
	}
	b.text = append(b.text, '}')
	return record.Raw(b.since(start))
}

// filePayload repeats the content of a file.
type filePayload struct {
	setting string // setting with the path
	path    string
	content *[]byte // may be shared with other generators
}

func (p *filePayload) size() int { return len(*p.content) }

func (p *filePayload) data(b *batch) record.Data {
	b.bytes += p.size()
	return record.Raw(bytes.Clone(*p.content))
}
