package sdk_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/plugins/record"
)

// ending is a value that ends a context when it is printed.
type ending struct {
	cancel  context.CancelFunc
	printed int
}

func (e *ending) String() string {
	e.cancel()
	e.printed++
	return ""
}

// A long-running template ends with the context, which does not refuse its record. Time stands still meanwhile, so no
// time limit ends it.
func TestRecordFormatEndsWithTheContext(t *testing.T) {
	const long = `{{ range until 300 }}{{ range until 300 }}{{ $.Payload.After.x }}{{ end }}{{ end }}`
	synctest.Test(t, func(t *testing.T) {
		d := openDestination(t, t.Context(), &sink{},
			map[string]string{"sdk.record.format": "template", "sdk.record.format.options": long})
		ctx, cancel := context.WithCancel(t.Context())
		x, all := &ending{cancel: cancel}, numbered(1, 100)
		for i := range all {
			all[i].After = record.Structured(map[string]any{"x": x})
		}
		err := d.WriteAsync(ctx, all, func(n int, err error) { t.Errorf("settled %d: %v", n, err) })
		if !errors.Is(err, context.Canceled) || x.printed > 1000 {
			t.Errorf("ended after %d iterations with %v", x.printed, err)
		}
	})
}
