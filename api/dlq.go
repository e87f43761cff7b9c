package api

import (
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// dlqPrefix is where the dead-letter queue is in a pipeline.
const dlqPrefix = "/dead-letter-queue"

func presentDLQ(w http.ResponseWriter, d *spec.Declaration, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	q := &d.Pipeline.DLQ
	w.Header().Set("ETag", tag(*q))
	return rest.DLQ{Plugin: q.Plugin, Settings: redact(q.Settings),
		WindowSize: rest.Count(q.WindowSize), WindowNackThreshold: rest.Count(q.WindowNackThreshold)}, nil
}

func (s *Server) getDLQ(w http.ResponseWriter, r *http.Request) (any, error) {
	d, err := s.pipeline(r.Context(), r.PathValue("id"))
	return presentDLQ(w, d, err)
}

// updateDLQ replaces the dead-letter queue. What is left out is as in a pipeline file
// that leaves it out.
func (s *Server) updateDLQ(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.DLQDocument
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	d, err := s.edit(w, r, &edit{
		id: r.PathValue("id"), prefix: dlqPrefix,
		current: func(p *spec.Pipeline) string { return tag(p.DLQ) },
		apply: func(p *spec.Pipeline) error {
			q := dlqIn(&body)
			settings, err := keep(q.Settings, p.DLQ.Settings, "settings")
			q.Settings = settings
			p.DLQ = q
			return err
		},
	})
	return presentDLQ(w, d, err)
}
