package api

import (
	"net/http"
	"strconv"

	"github.com/conduit-agent/conduit/spec"
)

// trendHandlers serves the trends of pipelines.
type trendHandlers struct {
	shared
	Trend func(id, last string) *spec.Trend // see Server
}

// exampleTrend has one step instead of 90.
var exampleTrend = func() spec.Trend {
	one := func(v float64) []*float64 { return []*float64{&v} }
	return spec.Trend{ID: "orders", Last: spec.Last15Minutes, Step: 10, From: exampleTime, Records: one(120),
		Bytes: one(30_720), Refused: one(0), Latency: one(0.012), Lag: one(0.05),
		Destinations: map[string][]*float64{"orders:out": one(120)}}
}()

// Get answers with the values in the window that the query names.
func (s *trendHandlers) Get(_ http.ResponseWriter, r *http.Request) (any, error) {
	if s.Trend == nil {
		return nil, notFound()
	}
	last := r.URL.Query().Get("last")
	switch last {
	case "":
		last = spec.Last15Minutes
	case spec.Last15Minutes, spec.LastHour, spec.LastDay:
	default:
		return nil, fieldError(spec.CodeInvalid, "last", "last must be 15m, 1h or 24h, not "+strconv.Quote(last))
	}
	d, err := s.Desired.Pipeline(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return s.Trend(d.Pipeline.ID, last), nil
}
