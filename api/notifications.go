package api

import (
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// testNotifications sends a notification to every target.
func (s *Server) testNotifications(_ http.ResponseWriter, r *http.Request) (any, error) {
	var results []spec.NotificationResult
	if s.Notify != nil {
		results = s.Notify(r.Context())
	}
	if len(results) == 0 {
		return nil, rest.Errorf(rest.FailedPrecondition, rest.ReasonNoTarget,
			"notifications are not configured: neither notify.webhook.url nor notify.command.run is set").
			Suggest("set one of them, and restart the agent")
	}
	return results, nil
}
