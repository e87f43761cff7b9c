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
	if strings.Join(ids, " ") != "orders orders:dead-letter-queue orders:shop orders:out" || after >= 1 || limit < 1 ||
		time.Now().Before(l.from) {
		return []spec.LogLine{}
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
			{"nothing/logs", 0, 404, rest.ReasonPipelineNotFound, 0},
			{"orders/logs", 0, 200, `"message":"one"`, 0},
			{"orders/logs?after=1", 0, 200, `[]`, 0},
			{"orders/logs?limit=0&wait=5", 0, 200, `[]`, 0},
			{"orders/logs?after=x", 0, 400, spec.CodeInvalid, 0},
			{"orders/logs", time.Second, 200, `[]`, 0},
			{"orders/logs?wait=5", time.Second, 200, `"message":"one"`, time.Second},
			{"orders/logs?wait=5&after=1", 0, 200, `[]`, 5 * time.Second},
		} {
			lines.from = time.Now().Add(c.in)
			time.AfterFunc(c.in, lines.changed.Notify)
			begin := time.Now()
			got := do(h, "GET", "/v1/pipelines/"+c.path, "")
			if took := time.Since(begin).Truncate(time.Second); got.status != c.status ||
				!strings.Contains(string(got.body), c.want) || took != c.took {
				t.Errorf("%s: %d %s after %v, want %d %s after %v", c.path, got.status, got.body, took, c.status,
					c.want, c.took)
			}
		}
	})
}
