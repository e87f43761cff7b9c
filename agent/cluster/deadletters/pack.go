package deadletters

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/conduit-agent/conduit/agent/deadletter"
)

// Sizes of writes: approximate and as JSON, except for maxPacked. NATS accepts messages of up to 1 MiB.
const (
	tailBytes    = 64 << 10
	segmentBytes = 512 << 10
	segmentCount = 1000
	maxPacked    = 768 << 10
	maxUnpacked  = 256 << 20
)

var (
	errTooLarge = errors.New("the dead letter is too large for the store of the cluster")
	errNewer    = errors.New("a newer version of conduit wrote the dead letters of the pipeline")
)

// pack encodes dead letters for the store.
func pack(all []*deadletter.DeadLetter) ([]byte, error) {
	if len(all) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, l := range all {
		if err := e.Encode(l); err != nil {
			return nil, fmt.Errorf("cannot encode a dead letter: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot compress dead letters: %w", err)
	}
	if b.Len() > maxPacked {
		return nil, errTooLarge
	}
	return b.Bytes(), nil
}

func unpack(state []byte) (all []*deadletter.DeadLetter, err error) {
	if len(state) == 0 {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(state))
	if err != nil {
		return nil, fmt.Errorf("cannot read dead letters in the store of the cluster: %w", err)
	}
	for d := json.NewDecoder(io.LimitReader(r, maxUnpacked)); ; {
		l := &deadletter.DeadLetter{}
		switch err := d.Decode(l); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("cannot read dead letters in the store of the cluster: %w", err)
		}
		all = append(all, l)
	}
}

// partOf describes a list of dead letters.
func partOf(all []*deadletter.DeadLetter) (p part) {
	for i, l := range all {
		if i == 0 {
			p.First, p.From = l.ID, l.Time
		}
		p.Count++
		p.Bytes += l.Bytes
		p.Last, p.To = l.ID, l.Time
	}
	return p
}

// sizeOf returns the approximate size of a dead letter as JSON, in bytes.
func sizeOf(l *deadletter.DeadLetter) int {
	n := 600 + len(l.Record) + len(l.Key) + len(l.Error)
	for _, r := range l.Refusals {
		n += 150 + len(r.Error)
	}
	return n
}

// divide returns the dead letters that go into segments, and the rest, which goes into the tail.
func divide(all []*deadletter.DeadLetter) (segments [][]*deadletter.DeadLetter, tail []*deadletter.DeadLetter) {
	size := 0
	for _, l := range all {
		size += sizeOf(l)
	}
	for size > tailBytes {
		n, bytes := 0, 0
		for n < len(all) && n < segmentCount {
			one := sizeOf(all[n])
			if n > 0 && bytes+one > segmentBytes {
				break
			}
			bytes += one
			n++
		}
		segments, all, size = append(segments, all[:n:n]), all[n:], size-bytes
	}
	return segments, all
}
