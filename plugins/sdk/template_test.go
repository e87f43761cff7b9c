package sdk_test

import (
	"context"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// A template that goes on for long ends with the context, and its record is not refused for that.
func TestRecordFormatEndsWithTheContext(t *testing.T) {
	const endless = `{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}`
	d := openDestination(t, t.Context(), &sink{}, map[string]string{"sdk.record.format": "template", "sdk.record.format.options": endless})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan time.Time, 1)
	time.AfterFunc(20*time.Millisecond, func() { ended <- time.Now(); cancel() })
	err := d.WriteAsync(ctx, numbered(1, 100), func(n int, err error) { t.Errorf("settled %d: %v", n, err) })
	if took := time.Since(<-ended); err == nil || took > wait.Within(1500*time.Millisecond, 1900*time.Millisecond) { // one execution may take 2s
		t.Errorf("%s after the context: %v", took, err)
	}
}
