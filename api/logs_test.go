package api_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// fakeLines has one line of the connector orders:shop from a moment on.
type fakeLines struct {
	changed notify.Broadcast
	from    time.Time
}

func (l *fakeLines) Read(ids []string, after int64, limit int) []spec.LogLine {
	if key := strings.Join(ids, " "); key != "" && key != "orders orders:dead-letter-queue orders:shop orders:out" ||
		after >= 1 || limit < 1 || time.Now().Before(l.from) {
		return []spec.LogLine{}
	}
	if ids == nil {
		return []spec.LogLine{{ID: 1, Level: "warn", Message: "of the agent"}}
	}
	return []spec.LogLine{{ID: 1, Level: strings.ToLower(slog.LevelInfo.String()), Message: "one"}}
}

func (l *fakeLines) Changed() <-chan struct{} { return l.changed.Next() }

func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := pipelineOf("orders", spec.StatusStopped)
		p.Connectors[0].ID = "shop"
		if err := w.ApplyIf(t.Context(), &spec.Changes{Declare: []spec.Declare{{Pipeline: p}}}, nil); err != nil {
			t.Fatal(err)
		}
		s, lines := newServer(w), &fakeLines{}
		s.Logs = lines
		h := s.Handler()
		for _, c := range []struct {
			path   string
			in     time.Duration // until there is a line
			status int
			want   string
			took   time.Duration
		}{
			{"pipelines/nothing/logs", 0, 404, rest.ReasonPipelineNotFound, 0},
			{"pipelines/orders/logs", 0, 200, `"message":"one"`, 0},
			{"pipelines/orders/logs?after=1", 0, 200, `[]`, 0},
			{"pipelines/orders/logs?limit=0&wait=5", 0, 200, `[]`, 0},
			{"pipelines/orders/logs?after=x", 0, 400, spec.CodeInvalid, 0},
			{"pipelines/orders/logs", time.Second, 200, `[]`, 0},
			{"pipelines/orders/logs?wait=5", time.Second, 200, `"message":"one"`, time.Second},
			{"pipelines/orders/logs?wait=5&after=1", 0, 200, `[]`, 5 * time.Second},
			{"logs", 0, 200, `"message":"of the agent"`, 0},
			{"logs?wait=5", time.Second, 200, `"message":"of the agent"`, time.Second},
			{"logs?limit=-1", 0, 400, spec.CodeInvalid, 0},
		} {
			lines.from = time.Now().Add(c.in)
			time.AfterFunc(c.in, lines.changed.Notify)
			begin := time.Now()
			got := do(h, "GET", "/v1/"+c.path, "")
			if took := time.Since(begin).Truncate(time.Second); got.status != c.status ||
				!strings.Contains(string(got.body), c.want) || took != c.took {
				t.Errorf("%s: %d %s after %v, want %d %s after %v", c.path, got.status, got.body, took, c.status,
					c.want, c.took)
			}
		}
	})
}

// A request that reads the log leaves no line in it: otherwise such a line would end the next request, without end.
func TestReadingTheLogIsNotLogged(t *testing.T) {
	var log strings.Builder
	s := newServer(newWorld(t))
	s.Logs = &fakeLines{}
	s.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := s.Handler()
	do(h, "GET", "/v1/logs", "")
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
	do(h, "GET", "/v1/pipelines/nothing/logs", "")
	if !strings.Contains(log.String(), "status=404") {
		t.Errorf("a failed request is not logged: %q", log.String())
	}
}
