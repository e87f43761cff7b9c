package generator

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

const (
	batchRecords = 512     // maximum number of records per Read
	batchBytes   = 1 << 20 // no further record is added beyond this size
	spareFields  = 5       // spare capacity in the metadata for the host's fields
)

// batch builds the records for one Read. Their texts share one array, and so do their metadata.
type batch struct {
	records []record.Record
	bytes   int // size of the content, without metadata

	random    *rand.Rand
	fields    []record.Field
	text      []byte // positions, keys and raw payloads
	perRecord int    // bytes of text per record in the previous batch

	now       any // a time.Time, converted to an interface value once
	createdAt string
	nowJSON   []byte
}

// start begins a batch of up to n records and approximately as many bytes.
func (b *batch) start(n, bytes int, random *rand.Rand) {
	b.perRecord = max(b.perRecord, 24)
	now := time.Now().Round(0).UTC()
	b.records = make([]record.Record, 0, n)
	b.fields = make([]record.Field, 0, n*(2+spareFields))
	b.text = make([]byte, 0, min(n*b.perRecord, bytes))
	b.bytes = 0
	b.random = random
	b.now = now.Truncate(time.Microsecond) // the resolution of schemas
	b.createdAt = strconv.FormatInt(now.UnixNano(), 10)
	b.nowJSON = now.AppendFormat(b.nowJSON[:0], `"`+time.RFC3339Nano+`"`)
}

// finish returns the records. b keeps no reference to them.
func (b *batch) finish() []record.Record {
	records := b.records
	b.perRecord = len(b.text)/max(len(records), 1) + 8
	b.records, b.fields, b.text = nil, nil, nil
	return records
}

// add creates the record with the given number.
func (b *batch) add(number int64, c *collection) {
	before := len(b.text)
	r := record.Record{
		Position:  b.position(number),
		Operation: c.operations[0],
		Metadata:  b.metadata(c.name),
		Key:       b.key(),
	}
	if len(c.operations) > 1 {
		r.Operation = c.operations[b.random.IntN(len(c.operations))]
	}
	if r.Operation == record.OperationUpdate || r.Operation == record.OperationDelete {
		r.Before = c.payload.data(b)
	}
	if r.Operation != record.OperationDelete {
		r.After = c.payload.data(b)
	}
	b.records = append(b.records, r)
	b.bytes += len(b.text) - before
}

func (b *batch) position(number int64) record.Position {
	start := len(b.text)
	b.text = strconv.AppendInt(b.text, number, 10)
	return b.since(start)
}

func (b *batch) key() record.Data {
	start := len(b.text)
	b.text = appendWord(b.text, b.random.Uint64())
	return record.Raw(b.since(start))
}

// since returns the text from start. An append to it copies it.
func (b *batch) since(start int) []byte {
	return b.text[start:len(b.text):len(b.text)]
}

// metadata returns the sorted metadata, with spare capacity for the host's fields.
func (b *batch) metadata(collection string) record.Metadata {
	start := len(b.fields)
	end := start + 1 + spareFields
	if collection != "" {
		b.fields = append(b.fields, record.Field{Key: record.KeyCollection, Value: collection})
		end++
	}
	b.fields = append(b.fields, record.Field{Key: record.KeyCreatedAt, Value: b.createdAt})
	m := b.fields[start:len(b.fields):end]
	b.fields = b.fields[:end]
	return record.Metadata(m)
}
