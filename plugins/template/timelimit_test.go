package template_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
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

func TestExecutionsEndWithTheContext(t *testing.T) {
	tpl, err := template.Parse(endless, template.Lenient)
	if err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	var timeLimit template.TimeLimit
	timeLimit.Begin(ctx)
	start := time.Now()
	time.AfterFunc(20*time.Millisecond, func() { cancel(stopped) })
	if _, err := tpl.Append(&timeLimit, nil, sample()); !errors.Is(err, stopped) {
		t.Errorf("it ended with %v after %s", err, time.Since(start))
	}
}
