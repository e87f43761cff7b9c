// Package trend keeps measurements of each pipeline over the last 15 minutes, hour and day, in a few kilobytes for each
// pipeline and across restarts of the agent.
package trend

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Step is the time between two samples of a pipeline.
const Step = 10 * time.Second

// window is a series of equal steps that ends now.
type window struct {
	name  string
	step  time.Duration
	steps int
}

var windows = [...]window{{spec.Last15Minutes, Step, 90}, {spec.LastHour, time.Minute, 60},
	{spec.LastDay, 10 * time.Minute, 144}}

// maxDestinations is the maximum number of destinations of a pipeline with a series.
const maxDestinations = 8

// Columns of a row. The columns of the destinations follow.
const (
	colRecords = iota // per second
	colBytes          // per second
	colRefused        // in the step
	colLatency        // mean, seconds
	colLag            // maximum, seconds
	colBehind         // maximum, records
	fixedColumns
)

// Sample has the measurements of a pipeline since the previous sample.
type Sample struct {
	Seconds      float64 // since the previous sample
	Records      float64 // read by all sources
	Bytes        float64
	Refused      float64
	Settled      float64 // records that were settled
	Transit      float64 // sum of the seconds until each was settled
	Lag          float64 // age of the oldest unacknowledged record in seconds, at the end
	Behind       float64 // records that the sources are behind, at the end; Unknown if they do not report it
	Destinations []Destination
}

// Destination is the number of records that a destination accepted.
type Destination struct {
	ID      string // qualified
	Records float64
}

// Unknown is the value of a step without a measurement.
const Unknown = -1

// sum has the values of a step that is not complete.
type sum struct {
	Seconds, Records, Bytes, Refused, Settled, Transit, Lag, Behind float64
	Delivered                                                       [maxDestinations]float64 // by destination, or Unknown
}

// nothing is the sum of no samples.
var nothing = sum{Behind: Unknown,
	Delivered: [maxDestinations]float64{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}}

func (s *sum) add(m *Sample, destinations []string) {
	s.Seconds += m.Seconds
	s.Records += m.Records
	s.Bytes += m.Bytes
	s.Refused += m.Refused
	s.Settled += m.Settled
	s.Transit += m.Transit
	s.Lag, s.Behind = max(s.Lag, m.Lag), max(s.Behind, m.Behind)
	for _, d := range m.Destinations {
		if i := slices.Index(destinations, d.ID); i >= 0 {
			s.Delivered[i] = max(0, s.Delivered[i]) + d.Records
		}
	}
}

// value returns the value of a column, or Unknown.
func (s *sum) value(column int) float64 {
	switch column {
	case colRecords:
		return s.Records / s.Seconds
	case colBytes:
		return s.Bytes / s.Seconds
	case colRefused:
		return s.Refused
	case colLatency:
		if s.Settled == 0 {
			return Unknown
		}
		return s.Transit / s.Settled
	case colLag:
		return s.Lag
	case colBehind:
		return s.Behind
	}
	return s.Delivered[column-fixedColumns] / s.Seconds // negative if Unknown
}

// ring holds the steps of a window. Steps are numbered since 1970. The row of a step has two bytes for each column.
type ring struct {
	Rows []byte // of the last complete steps; step n is at n modulo the number of steps; nil: there are none
	Last int64  // the newest complete step
	At   int64  // the step that is not complete; 0: there is none
	Open sum    // of step At
}

// pipeline holds the rings of a pipeline.
type pipeline struct {
	ID           string
	Destinations []string // qualified ids, in the order of the columns
	Rings        [len(windows)]ring
}

// add adds a sample that was taken at a time.
func (p *pipeline) add(at time.Time, m *Sample) {
	if m.Seconds <= 0 {
		return
	}
	// A sample belongs to the step that it overlaps most: samples come a little after the end of a step.
	middle := at.Add(-time.Duration(m.Seconds / 2 * float64(time.Second)))
	for i := range p.Rings {
		r, w := &p.Rings[i], &windows[i]
		if n := w.number(middle); n != r.At {
			r.close(w.steps, p.width())
			if n <= r.Last { // the clock was set back: later steps are unknown
				r.unset(max(n, r.Last-int64(w.steps)+1), r.Last, w.steps, p.width())
				r.Last = n - 1
			}
			r.At, r.Open = n, nothing
		}
	}
	p.welcome(m.Destinations)
	for i := range p.Rings {
		p.Rings[i].Open.add(m, p.Destinations)
	}
}

// number returns the number of the step at a time.
func (w *window) number(at time.Time) int64 { return at.UnixNano() / int64(w.step) }

// width returns the number of bytes of a row.
func (p *pipeline) width() int { return 2 * (fixedColumns + len(p.Destinations)) }

// close adds the row of the incomplete step. The steps between it and the last row are not known.
func (r *ring) close(steps, width int) {
	if r.At == 0 {
		return
	}
	if r.Rows == nil {
		r.Rows = make([]byte, steps*width)
		r.Last = r.At - int64(steps)
	}
	r.unset(max(r.Last+1, r.At-int64(steps)+1), r.At-1, steps, width)
	row := r.row(r.At, steps, width)
	for i := range width / 2 {
		binary.LittleEndian.PutUint16(row[2*i:], pack(r.Open.value(i)))
	}
	r.Last = r.At
}

// unset makes the rows between two steps unknown.
func (r *ring) unset(from, to int64, steps, width int) {
	for n := from; n <= to; n++ {
		for i := range r.row(n, steps, width) {
			r.row(n, steps, width)[i] = 0xff
		}
	}
}

func (r *ring) row(n int64, steps, width int) []byte {
	i := int(n%int64(steps)) * width
	return r.Rows[i : i+width]
}

// value returns the value of a column in step n, Unknown if the step is not known.
func (r *ring) value(n int64, column, steps, width int) float64 {
	switch {
	case n == r.At && r.Open.Seconds > 0:
		return r.Open.value(column)
	case r.Rows == nil || n > r.Last || n <= r.Last-int64(steps):
		return Unknown
	}
	return unpack(binary.LittleEndian.Uint16(r.row(n, steps, width)[2*column:]))
}

// welcome gives each destination a column. If there are too many, former destinations lose their columns.
func (p *pipeline) welcome(now []Destination) {
	now = now[:min(len(now), maxDestinations)]
	all := p.Destinations
	for _, d := range now {
		if !slices.Contains(all, d.ID) {
			all = append(slices.Clip(all), d.ID)
		}
	}
	if len(all) == len(p.Destinations) {
		return
	}
	if len(all) > maxDestinations {
		all = slices.DeleteFunc(slices.Clone(all), func(id string) bool {
			return !slices.ContainsFunc(now, func(d Destination) bool { return d.ID == id })
		})
	}
	for i := range p.Rings {
		p.Rings[i].rearrange(p.Destinations, all, windows[i].steps)
	}
	p.Destinations = all
}

// rearrange moves the columns of the destinations.
func (r *ring) rearrange(from, to []string, steps int) {
	was := *r
	r.Open.Delivered = nothing.Delivered
	for j, id := range to {
		if i := slices.Index(from, id); i >= 0 {
			r.Open.Delivered[j] = was.Open.Delivered[i]
		}
	}
	if was.Rows == nil {
		return
	}
	width := 2 * (fixedColumns + len(from))
	r.Rows = make([]byte, 0, steps*2*(fixedColumns+len(to)))
	for row := range slices.Chunk(was.Rows, width) {
		r.Rows = append(r.Rows, row[:2*fixedColumns]...)
		for _, id := range to {
			value := uint16(unknown)
			if i := slices.Index(from, id); i >= 0 {
				value = binary.LittleEndian.Uint16(row[2*(fixedColumns+i):])
			}
			r.Rows = binary.LittleEndian.AppendUint16(r.Rows, value)
		}
	}
}

// trend returns the values of a window that ends at now.
func (p *pipeline) trend(i int, now time.Time) *spec.Trend {
	r, w := &p.Rings[i], &windows[i]
	end := w.number(now)
	if end != r.At {
		end-- // nothing was measured in this step yet
	}
	first := end - int64(w.steps) + 1
	all := &spec.Trend{ID: p.ID, Last: w.name, Step: int(w.step / time.Second),
		From: time.Unix(0, first*int64(w.step)).UTC(), Destinations: map[string][]*float64{}}
	series := func(column int) (values []*float64, known bool) {
		values = make([]*float64, w.steps)
		for j := range values {
			if v := r.value(first+int64(j), column, w.steps, p.width()); v >= 0 {
				values[j], known = &v, true
			}
		}
		return values, known
	}
	for column, to := range []*[]*float64{&all.Records, &all.Bytes, &all.Refused, &all.Latency, &all.Lag} {
		*to, _ = series(column)
	}
	if behind, known := series(colBehind); known {
		all.Behind = behind
	}
	for j, id := range p.Destinations {
		if delivered, known := series(fixedColumns + j); known {
			all.Destinations[id] = delivered
		}
	}
	return all
}

// unknown is the packed form of Unknown.
const unknown = math.MaxUint16

// pack returns the upper half of a 32-bit floating-point number without its sign, rounded: at most 0.2 % from v.
func pack(v float64) uint16 {
	if v < 0 || math.IsNaN(v) {
		return unknown
	}
	bits := math.Float32bits(float32(v))
	return uint16((bits + 0x4000) >> 15)
}

func unpack(v uint16) float64 {
	if v == unknown {
		return Unknown
	}
	return float64(math.Float32frombits(uint32(v) << 15))
}
