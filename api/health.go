package api

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// healthHandlers reports liveness, readiness and the version of the agent.
type healthHandlers struct {
	shared
	Version   string
	Fault     func(ctx context.Context) error // Server.Ready
	Directory func() spec.Directory           // see Server
	Memory    func() spec.RecordMemory        // nil: not reported
}

// Info answers with the version.
func (s *healthHandlers) Info(http.ResponseWriter, *http.Request) (any, error) {
	return rest.Info{Version: s.Version, OS: runtime.GOOS, Arch: runtime.GOARCH}, nil
}

// services are the names that a health request may have.
var services = []string{"PipelineService", "ConnectorService", "ProcessorService", "ConnectorPluginService",
	"ProcessorPluginService"}

// Live reports that the agent answers. Ready reports more.
func (s *healthHandlers) Live(_ http.ResponseWriter, r *http.Request) (any, error) {
	if name := r.URL.Query().Get("service"); name != "" && !slices.Contains(services, name) {
		return nil, rest.Errorf(rest.NotFound, rest.ReasonNotFound, "unknown service %.60q", name)
	}
	return rest.Health{Status: "SERVING"}, nil
}

// Ready counts pipelines and reports the state of the directory of pipeline files. Clients that may read also get the
// reasons.
func (s *healthHandlers) Ready(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := s.Fault(r.Context()); err != nil {
		body := rest.Readiness{Status: "unavailable", Directory: s.directory(r)}
		if errors.Is(err, ErrStarting) {
			body.Status = "starting"
		} else if s.Guard.RoleOf(r) >= guard.Read {
			body.Reason = err.Error()
		}
		answerJSON(w, r, http.StatusServiceUnavailable, body)
		return nil, nil
	}
	all, err := s.Desired.Declared(r.Context())
	count := &rest.ReadyPipelines{Total: len(all)}
	for i := range all {
		state := s.stateOf(&all[i])
		if observed, _ := s.Loop.State(all[i].Pipeline.ID); observed.Stall != nil {
			count.NotDelivering++
		}
		switch state.Status {
		case rest.StatusRunning:
			count.Running++
		case rest.StatusDegraded:
			count.Degraded++
			if s.Guard.RoleOf(r) >= guard.Read {
				count.DegradedPipelines = append(count.DegradedPipelines,
					rest.DegradedPipeline{ID: all[i].Pipeline.ID, Status: state.Status, Error: state.Error})
			}
		}
	}
	return rest.Readiness{Status: "ready", Directory: s.directory(r), Pipelines: count, Memory: s.memory()}, err
}

// memory returns the use of record memory when sources wait for it, nil when none do.
func (s *healthHandlers) memory() *spec.RecordMemory {
	if s.Memory == nil {
		return nil
	}
	m := s.Memory()
	if m.Waiting == 0 {
		return nil
	}
	return &m
}

// directory returns the state of the directory of the pipeline files, nil when it has not been read yet.
func (s *healthHandlers) directory(r *http.Request) *spec.Directory {
	d := s.Directory()
	if d.State == "" {
		return nil
	}
	if s.Guard.RoleOf(r) < guard.Read {
		d.Message = ""
	}
	return &d
}
