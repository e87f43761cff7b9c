package standalone

import (
	"context"
	"log/slog"
	"time"
)

// PrepareEvery is like Prepare, with the time between two lists of the processes.
func PrepareEvery(interval time.Duration, record string, log *slog.Logger) (end func(ctx context.Context)) {
	r := newRecorder(record, log)
	r.interval = interval
	return r.prepare()
}
