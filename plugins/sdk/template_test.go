package sdk_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A long-running template ends with the context, which does not refuse its record.
func TestRecordFormatEndsWithTheContext(t *testing.T) {
	const endless = `{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}`
	d := openDestination(t, t.Context(), &sink{},
		map[string]string{"sdk.record.format": "template", "sdk.record.format.options": endless})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	// Without the context, the time limit of an execution refuses the record.
	err := d.WriteAsync(ctx, numbered(1, 100), func(n int, err error) { t.Errorf("settled %d: %v", n, err) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
