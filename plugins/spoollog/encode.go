package spoollog

import (
	"fmt"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Frame is a run of encoded records, ready to be appended.
type Frame struct{ frame frame }

// Records returns the number of records of the frame.
func (f *Frame) Records() int { return f.frame.count }

// Bytes returns the size of the frame on disk.
func (f *Frame) Bytes() int { return len(f.frame.data) }

// typicalRecord is the initial capacity for the encoding of a record, in bytes.
const typicalRecord = 256

var encoders = sync.Pool{New: func() any { return new(RecordEncoder) }}

// Encode encodes the first n records; n is len(records) when err is nil. Otherwise err says why the next record cannot
// be encoded.
func Encode(records []record.Record) (frames []Frame, n int, err error) {
	e := encoders.Get().(*RecordEncoder)
	defer encoders.Put(e)
	for n < len(records) && err == nil {
		var f frame
		f, err = encodeFrame(e, records[n:])
		if f.count > 0 {
			frames = append(frames, Frame{f})
			n += f.count
		}
	}
	return frames, n, err
}

// encodeFrame encodes as many records as fit into a frame.
func encodeFrame(e *RecordEncoder, records []record.Record) (f frame, err error) {
	e.Reset(make([]byte, headerSize, min(headerSize+len(records)*typicalRecord, frameBytes+typicalRecord)))
	size := headerSize
	for f.count < min(len(records), frameRecords) && size < frameBytes {
		if err = e.Append(&records[f.count]); err == nil && e.Len() > headerSize+maxBody {
			err = fmt.Errorf("it has %d bytes, more than %d", e.Len()-size, maxBody)
		}
		if err != nil {
			err = fmt.Errorf("cannot encode the record: %w", err)
			break
		}
		f.count++
		size = e.Len()
	}
	f.data = e.Take()[:size]
	return f, err
}
