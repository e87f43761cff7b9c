package httpsink

import (
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// seriesIdle is the time after which an unused series no longer counts.
const seriesIdle = time.Hour

// Series bounds the number of things that a destination creates at a server and that cost memory there as long as they
// are in use, such as the streams of a log store. It is not safe for concurrent use.
type Series struct {
	max     int
	what    string // such as "streams"
	setting string // with the maximum
	used    map[string]*Used
	now     time.Time
}

// Used is one of the things.
type Used struct {
	Key string
	// State belongs to the dialect, and is forgotten together with the key.
	State any

	used time.Time
	last int64 // last result of Time
}

// NewSeries returns a bound of limit things. what names them in errors, and setting is the setting with the limit.
func NewSeries(limit int, what, setting string) *Series {
	return &Series{max: limit, what: what, setting: setting, used: map[string]*Used{}}
}

// Begin sets the time of the following calls.
func (s *Series) Begin(now time.Time) { s.now = now }

// Use returns the one with a key. The error refuses a new key when as many others were used within the last hour.
func (s *Series) Use(key []byte) (*Used, error) {
	if one := s.used[string(key)]; one != nil {
		one.used = s.now
		return one, nil
	}
	if len(s.used) >= s.max {
		s.forget()
	}
	if len(s.used) >= s.max {
		return nil, fmt.Errorf("cannot write the record: it would be in another of the %s, and %d are in use: remove "+
			"labels or tags with many values, or raise %s", s.what, s.max, s.setting)
	}
	one := &Used{Key: string(key), used: s.now}
	s.used[one.Key] = one
	return one, nil
}

// Known returns the one with a key, nil for none. It does not count as used.
func (s *Series) Known(key string) *Used { return s.used[key] }

// Empty reports whether nothing was used.
func (s *Series) Empty() bool { return len(s.used) == 0 }

// Time returns the time of a record in u, in Unix nanoseconds: its creation, or else when it was read. A time of
// reading is made later than the one before: records that are read together have the same, and of equal ones the
// server would keep only one.
func (s *Series) Time(u *Used, r *record.Record) int64 {
	if at, ok := timeIn(r, record.KeyCreatedAt); ok {
		return at.UnixNano()
	}
	at, ok := timeIn(r, record.KeyReadAt)
	if !ok {
		at = s.now
	}
	u.last = max(u.last+1, at.UnixNano())
	return u.last
}

// forget removes those that are no longer used.
func (s *Series) forget() {
	for key, one := range s.used {
		if s.now.Sub(one.used) > seriesIdle {
			delete(s.used, key)
		}
	}
}
