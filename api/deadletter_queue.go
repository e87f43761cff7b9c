package api

import (
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// deadLetterQueueHandlers performs the operations on dead-letter queues.
type deadLetterQueueHandlers struct{ shared }

func (s *deadLetterQueueHandlers) present(
	w http.ResponseWriter,
	r *http.Request,
	d *spec.Declaration,
	err error,
) (any, error) {
	if err != nil {
		return nil, err
	}
	q := &d.Pipeline.DeadLetterQueue
	w.Header().Set("ETag", etag(*q))
	return rest.DeadLetterQueue{
		Plugin:              q.Plugin,
		Settings:            s.view(r).Settings(spec.TypeDestination, q.Plugin, q.Settings),
		WindowSize:          rest.Count(q.WindowSize),
		WindowNackThreshold: rest.Count(q.WindowNackThreshold),
		KeepOriginal:        q.KeepOriginal,
	}, nil
}

// Get answers with the dead-letter queue of a pipeline.
func (s *deadLetterQueueHandlers) Get(w http.ResponseWriter, r *http.Request) (any, error) {
	d, err := s.Desired.Pipeline(r.Context(), r.PathValue("id"))
	return s.present(w, r, d, err)
}

// Update replaces the dead-letter queue. A field that is left out has the same meaning as in a pipeline file.
func (s *deadLetterQueueHandlers) Update(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.DeadLetterQueueDocument
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	d, err := s.edit(w, r, &edit{
		ID: r.PathValue("id"), Path: deadLetterQueuePath,
		Current: func(p *spec.Pipeline) string { return etag(p.DeadLetterQueue) },
		Apply: func(p *spec.Pipeline) error {
			q := deadLetterQueueIn(&body)
			settings, err := keepSecrets(q.Settings, p.DeadLetterQueue.Settings, "settings")
			q.Settings = settings
			p.DeadLetterQueue = q
			return err
		},
	})
	return s.present(w, r, d, err)
}
