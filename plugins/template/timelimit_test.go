package template_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

const endless = `{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}`

func TestBatchesHaveATimeLimit(t *testing.T) {
	tpl, err := template.Parse(endless, template.Lenient)
	if err != nil {
		t.Fatal(err)
	}
	var timeLimit template.TimeLimit
	timeLimit.Begin(t.Context())
	timeLimit.Shorten(20 * time.Millisecond)
	// The first execution uses up the time limit of the batch; the others take no more time.
	if d := wait.CPUTime(func() {
		for i := range 1000 {
			if _, err := tpl.Append(&timeLimit, nil, sample()); err == nil ||
				!strings.Contains(err.Error(), "of one batch together") {
				t.Fatalf("execution %d: %v", i, err)
			}
		}
	}); d > 4*time.Second {
		t.Errorf("a batch took %s of CPU time", d)
	}
	short, err := template.Parse(`{{ upper .Metadata.m }}`, template.Lenient)
	if err != nil {
		t.Fatal(err)
	}
	timeLimit.Begin(t.Context())
	if out, err := short.Append(&timeLimit, nil, sample()); err != nil || string(out) != "V" {
		t.Errorf("in the next batch: %q, %v", out, err)
	}
}

// ending is a value that ends a context when it is printed.
type ending struct {
	cancel  func()
	printed int
}

func (e *ending) String() string {
	e.cancel()
	e.printed++
	return ""
}

// An execution whose context ends fails with the cause within a few iterations. Time stands still meanwhile, so no time
// limit ends it.
func TestExecutionsEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tpl, err := template.Parse(`{{ range until 300 }}{{ range until 300 }}{{ $.Payload.After.x }}{{ end }}{{ end }}`,
			template.Lenient)
		if err != nil {
			t.Fatal(err)
		}
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		var timeLimit template.TimeLimit
		timeLimit.Begin(ctx)
		x := &ending{cancel: func() { cancel(stopped) }}
		r := &record.Record{After: record.Structured(map[string]any{"x": x})}
		if _, err := tpl.Append(&timeLimit, nil, r); !errors.Is(err, stopped) || x.printed > 1000 {
			t.Errorf("it ended after %d iterations with %v", x.printed, err)
		}
	})
}
