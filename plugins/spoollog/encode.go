package spoollog

import (
	"fmt"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Frame is a run of encoded records, ready to be appended.
type Frame struct{ frame frame }

// recordGuess is the room that a record is given at first.
const recordGuess = 256

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// Encode encodes the first n records, all of them when err is nil. Otherwise err says why
// the next one cannot be encoded.
func Encode(records []record.Record) (frames []Frame, n int, err error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	for n < len(records) && err == nil {
		var f frame
		f, err = e.frame(records[n:])
		if f.count > 0 {
			frames = append(frames, Frame{f})
			n += f.count
		}
	}
	return frames, n, err
}

// frame encodes as many records as make a frame.
func (e *encoder) frame(records []record.Record) (f frame, err error) {
	e.reset(make([]byte, headerSize, min(headerSize+len(records)*recordGuess, frameBytes+recordGuess)))
	for f.count < min(len(records), frameRecords) && len(e.buf) < frameBytes {
		before := len(e.buf)
		if err = e.record(&records[f.count]); err == nil && len(e.buf) > headerSize+maxBody {
			err = fmt.Errorf("it has %d bytes, more than %d", len(e.buf)-before, maxBody)
		}
		if err != nil {
			e.buf = e.buf[:before]
			err = fmt.Errorf("cannot encode the record: %w", err)
			break
		}
		f.count++
	}
	f.data, e.buf = e.buf, nil
	return f, err
}
