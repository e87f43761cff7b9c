package api

import (
	"errors"
	"net/http"
	"runtime"
	"slices"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func (s *Server) info(http.ResponseWriter, *http.Request) (any, error) {
	return rest.Info{Version: s.Version, OS: runtime.GOOS, Arch: runtime.GOARCH}, nil
}

// services are the names that health may be asked of.
var services = []string{"PipelineService", "ConnectorService", "ProcessorService", "ConnectorPluginService", "ProcessorPluginService"}

// health tells that the agent answers; readiness tells more.
func (s *Server) health(_ http.ResponseWriter, r *http.Request) (any, error) {
	if name := r.URL.Query().Get("service"); name != "" && !slices.Contains(services, name) {
		return nil, rest.Errorf(rest.NotFound, rest.ReasonNotFound, "there is no service %.60q", name)
	}
	return rest.Health{Status: "SERVING"}, nil
}

// ready counts pipelines and says how it stands with the directory of their files. Those
// who may read are told why.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := s.Observed.Ready(r.Context()); err != nil {
		body := rest.Readiness{Status: "unavailable", Directory: s.directory(r)}
		if errors.Is(err, ErrStarting) {
			body.Status = "starting"
		} else if s.roleOf(r) >= roleRead {
			body.Reason = err.Error()
		}
		answer(w, r, http.StatusServiceUnavailable, body)
		return nil, nil
	}
	all, err := s.declared(r.Context())
	count := &rest.ReadyPipelines{Total: len(all)}
	for i := range all {
		state := s.stateOf(&all[i])
		switch state.Status {
		case rest.StatusRunning:
			count.Running++
		case rest.StatusDegraded:
			count.Degraded++
			if s.roleOf(r) >= roleRead {
				count.DegradedPipelines = append(count.DegradedPipelines, rest.DegradedPipeline{ID: all[i].Pipeline.ID, Status: state.Status, Error: state.Error})
			}
		}
	}
	return rest.Readiness{Status: "ready", Directory: s.directory(r), Pipelines: count}, err
}

// directory returns how it stands with the directory of the pipeline files, nil when
// nobody has looked yet.
func (s *Server) directory(r *http.Request) *spec.Directory {
	d := s.Observed.Directory()
	if d.State == "" {
		return nil
	}
	if s.roleOf(r) < roleRead {
		d.Message = ""
	}
	return &d
}

func (s *Server) listPlugins(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := byName(r)
	list := []rest.Plugin{}
	if err != nil {
		return nil, err
	}
	for _, p := range s.Plugins.Plugins() {
		if name.MatchString(p.Name) {
			list = append(list, p)
		}
	}
	return list, nil
}

// listProcessorPlugins answers with an empty list: this version has none.
func (s *Server) listProcessorPlugins(_ http.ResponseWriter, r *http.Request) (any, error) {
	_, err := byName(r)
	return []rest.Plugin{}, err
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.Metrics == nil {
		return nil, notFound()
	}
	s.Metrics.ServeHTTP(w, r)
	return nil, nil
}

func notFound() error {
	return rest.Errorf(rest.NotFound, rest.ReasonNotFound, "there is nothing at this path").Suggest("/openapi/ shows what there is")
}

// Stats is what the server counts.
type Stats struct {
	Panics   uint64            // requests that ended in a panic
	Sessions map[string]int    // inspector sessions by connector
	Dropped  map[string]uint64 // records that inspectors did not get to see, by connector
}

// Stats returns what the server counted until now.
func (s *Server) Stats() Stats {
	s.init()
	sessions, dropped := s.inspector.stats()
	return Stats{Panics: s.stats.panics.Load(), Sessions: sessions, Dropped: dropped}
}
