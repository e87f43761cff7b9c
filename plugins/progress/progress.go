// Package progress describes the lag of a source behind the system it reads from.
package progress

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// Report is the lag of a source behind the newest data in its system, in the units of the system. A nil field is
// unknown. The zero Report contains no information.
type Report struct {
	// Bytes that the system holds and the source has not confirmed.
	Bytes *int64 `json:"bytes,omitempty"`
	// Records that the system holds and the source has not confirmed.
	Records *int64 `json:"records,omitempty"`
	// Partitions, or other parts of the data, with unconfirmed records: at most 20, the largest first.
	Parts []Part `json:"parts,omitempty"`
	// Age of the newest data that was read, in seconds; 0 when all data is read.
	Seconds *float64 `json:"seconds,omitempty"`
	// Time of the last query of the system.
	At time.Time `json:"at,omitzero"`
	// Snapshots in progress.
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	// Failure that is about to happen unless a person acts.
	Warning string `json:"warning,omitempty"`
	// Facts that are in order and may surprise, such as a pattern that matches no file.
	Notes []string `json:"notes,omitempty"`
	// Data that the source skips so that it can read the rest: at most 20 items, the newest first.
	Skipped []Skip `json:"skipped,omitempty"`

	// Endless means that there is no end, because others send to the source. Records is the number of received records.
	Endless bool `json:"-"`
	// Unfinished is the reason why a source with an end may still get more records, as in "its command has not ended".
	Unfinished string `json:"-"`
	// Nothing is the reason why there is nothing to read although there is no error, as in "no file matches *.log".
	Nothing string `json:"-"`
}

// Part is a part of a system with its own end, such as a partition.
type Part struct {
	// Name of the partition or other part.
	Of string `json:"of"`
	// Records of the part that the source has not confirmed.
	Records int64 `json:"records"`
}

// maxParts limits the parts of a Report.
const maxParts = 20

// SetParts sets the parts. It keeps those with the most records behind.
func (r *Report) SetParts(parts []Part) {
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Records <= 0 })
	sort.Slice(parts, func(i, j int) bool {
		a, b := &parts[i], &parts[j]
		return cmp.Or(cmp.Compare(b.Records, a.Records), strings.Compare(a.Of, b.Of)) < 0
	})
	r.Parts = parts[:min(len(parts), maxParts)]
}

// SetAge sets the age of the newest data read. newest is its time in the system, zero if nothing was read. The age is 0
// if everything was read (current).
func (r *Report) SetAge(newest time.Time, current bool) {
	age := 0.0
	switch {
	case current:
	case newest.IsZero():
		return
	default:
		age = max(0, time.Since(newest).Seconds())
	}
	r.Seconds = &age
}

// Warn adds warnings. It ignores empty ones.
func (r *Report) Warn(warnings ...string) {
	for _, w := range warnings {
		if w != "" && r.Warning != "" {
			r.Warning += "; "
		}
		r.Warning += w
	}
}

// Snapshot is the progress of reading the existing data of a table or topic.
type Snapshot struct {
	// Name of the table or other object that is read completely.
	Of string `json:"of"`
	// Rows read.
	Rows int64 `json:"rows"`
	// Estimated total number of rows; left out when it is unknown.
	Total int64 `json:"total,omitempty"`
	// Time at which reading began, or resumed after a restart.
	StartedAt time.Time `json:"startedAt"`
	// Rows that were read before reading resumed.
	Resumed int64 `json:"resumed,omitempty"`
}

// Percent returns the percentage of the rows read, from 0 to 100. ok is false if the total is unknown.
func (s *Snapshot) Percent() (percent float64, ok bool) {
	if s.Total <= 0 {
		return 0, false
	}
	return min(100, 100*float64(s.Rows)/float64(s.Total)), true
}

// Left estimates the time until all rows are read, at the average rate so far. ok is false if it is unknown.
func (s *Snapshot) Left(now time.Time) (left time.Duration, ok bool) {
	read, passed := s.Rows-s.Resumed, now.Sub(s.StartedAt)
	if s.Total <= 0 || read <= 0 || passed <= 0 {
		return 0, false
	}
	rest := float64(max(0, s.Total-s.Rows)) / float64(read)
	return time.Duration(rest * float64(passed)).Round(time.Second), true
}

// String returns text such as "orders 42 % (1200 of 2800 rows, 5m0s left), 12.3 MB behind".
func (r *Report) String() string { return r.Text(time.Now()) }

// Text is like String at the given time.
func (r *Report) Text(now time.Time) string {
	var parts []string
	for i := range r.Snapshots {
		parts = append(parts, r.Snapshots[i].text(now))
	}
	switch {
	case r.Bytes != nil:
		parts = append(parts, bytes(*r.Bytes)+" behind")
	case r.Records != nil:
		parts = append(parts, fmt.Sprintf("%d records behind%s", *r.Records, r.most()))
	case r.Seconds != nil:
		parts = append(parts, time.Duration(*r.Seconds*float64(time.Second)).Round(time.Second).String()+" behind")
	}
	return strings.Join(parts, ", ")
}

// most names the part with the most records behind, if there are several parts.
func (r *Report) most() string {
	if len(r.Parts) < 2 {
		return ""
	}
	return fmt.Sprintf(" (%s: %d)", r.Parts[0].Of, r.Parts[0].Records)
}

func (s *Snapshot) text(now time.Time) string {
	percent, ok := s.Percent()
	if !ok {
		return fmt.Sprintf("%s %d rows", s.Of, s.Rows)
	}
	left := ""
	if d, ok := s.Left(now); ok {
		left = fmt.Sprintf(", %v left", d)
	}
	return fmt.Sprintf("%s %.0f %% (%d of %d rows%s)", s.Of, percent, s.Rows, s.Total, left)
}

func bytes(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for ; v >= unit && i < len(prefixes)-1; i++ {
		v /= unit
	}
	return fmt.Sprintf("%.1f %cB", v, prefixes[i])
}

const prefixes = "kMGTPE"
