package window

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

type settings struct {
	// Comma list of references to the fields that group the records. Without one there is one group.
	Key string `json:"key"`
	// Length of a window. Windows begin at multiples of this length, or of window.slide, since 1970.
	Size time.Duration `json:"window.size" validate:"required,gt=0"`
	// Time between the starts of two windows; if less than window.size, windows overlap. 0: each starts at the end of
	// the previous one.
	Slide time.Duration `json:"window.slide" default:"0"`
	// Records that may be held at once, at most as many as may be outstanding. When there are as many, all windows end
	// early.
	Records int `json:"window.records" default:"4000" validate:"gt=0,lt=8001"`
	// Reference to the time of a record: a time, RFC 3339, or Unix nanoseconds. Without one it is opencdc.createdAt, or
	// opencdc.readAt where the source does not give that.
	Time string `json:"time"`
	// With time: maximum lateness of a record.
	Lateness time.Duration `json:"lateness" default:"0"`
	// With time: how far the time of a record may be ahead of the clock of this machine. A record beyond is refused. 0:
	// any time; one record with a wrong time can then end all windows before it.
	Ahead time.Duration `json:"ahead" default:"0"`
	// With time: action for a record whose windows have ended.
	Late string `json:"late" default:"refuse" validate:"inclusion=refuse|drop"`
	// Results by the name of their field: count, or sum, avg, min, max, first, last, distinct or a percentile such as
	// p50 or p99.9 of a reference, as in sum(.Payload.After.amount). Up to 1,000 values, distinct and percentiles are
	// exact; beyond, distinct is off by 0.8 % on average, and a percentile by at most 1 % of the ranks in the middle
	// and 0.1 % at p1 and p99.
	Fields map[string]string `json:"fields.*"`
}

// maxOverlap bounds the number of windows that contain a record.
const maxOverlap = 1000

var callPattern = texts.Regexp(
	`^(count|sum|avg|min|max|first|last|distinct|p(?:\d{1,2}(?:\.\d{1,3})?|100))(?:\((.*)\))?$`)

// column is one field of the results.
type column struct {
	name, function string
	percentile     float64       // of the function percentile
	ref            *fieldref.Ref // nil for a count of records
}

func (s *settings) columns() ([]column, error) {
	var columns []column
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		setting := "fields." + name
		m := callPattern().FindStringSubmatch(s.Fields[name])
		if m == nil || m[2] == "" && m[1] != "count" {
			return nil, sdk.SettingError{Setting: setting,
				Message: fmt.Sprintf("cannot compute %q: want count, or sum(…), avg(…), min(…), max(…), first(…), "+
					"last(…), distinct(…) or a percentile such as p99(…) of a reference", s.Fields[name])}
		}
		c := column{name: name, function: m[1]}
		if p, err := strconv.ParseFloat(strings.TrimPrefix(m[1], "p"), 64); err == nil {
			c.function, c.percentile = "percentile", p
		}
		if m[2] != "" {
			var err error
			if c.ref, err = fieldref.Parse(m[2]); err != nil {
				return nil, sdk.SettingError{Setting: setting, Message: err.Error()}
			}
		}
		columns = append(columns, c)
	}
	if len(columns) == 0 {
		columns = []column{{name: "count", function: "count"}}
	}
	return columns, nil
}

func (s *settings) check() error {
	if s.Slide == 0 {
		s.Slide = s.Size
	}
	switch {
	case s.Slide < 0 || s.Slide > s.Size:
		return sdk.SettingError{Setting: "window.slide",
			Message: fmt.Sprintf("must be between 0 and window.size, which is %s: records between two windows would "+
				"be lost", s.Size)}
	case s.Size/s.Slide > maxOverlap:
		return sdk.SettingError{Setting: "window.slide",
			Message: fmt.Sprintf("each record would be in %d windows; the most is %d", s.Size/s.Slide, maxOverlap)}
	case s.Lateness < 0:
		return sdk.SettingError{Setting: "lateness", Message: "must not be negative"}
	case s.Ahead < 0:
		return sdk.SettingError{Setting: "ahead", Message: "must not be negative"}
	}
	return nil
}
