package main

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// spooled returns the number of records and bytes in the spool, 0 while it does not exist.
func (b *bench) spooled() (records uint64, bytes int64) {
	s, err := spoollog.Inspect(b.path("spool"))
	if err != nil {
		return 0, 0
	}
	for _, g := range s.Segments {
		records, bytes = records+g.End-g.First, bytes+g.Bytes
	}
	return records, bytes
}

// toSpool measures for the given time, by the number of records in the spool.
func toSpool(ctx context.Context, b *bench) ([]float64, error) {
	a, err := b.start(ctx, pipeline(0, source("builtin:generator", fast), destination("builtin:spool", "path: spool")))
	if err != nil {
		return nil, err
	}
	f, err := b.observeSpool(ctx, a)
	if err = a.stop(err); err != nil {
		return nil, err
	}
	return f.values(), nil
}

func (b *bench) observeSpool(ctx context.Context, a *agent) (f flow, err error) {
	if err := await(ctx, "records", func() bool { n, _ := b.spooled(); return n > 0 }); err != nil {
		return f, err
	}
	sleep(ctx, warmUp)
	begin := time.Now()
	before, _ := b.spooled()
	used, err := a.usage()
	if err != nil {
		return f, err
	}
	sleep(ctx, b.seconds)
	after, _ := b.spooled()
	f.records, f.share, f.took = float64(after-before), 1, time.Since(begin)
	end, err := a.usage()
	if err != nil {
		return f, err
	}
	f.used = end.minus(used)
	f.peak, err = a.peak()
	return f, err
}

// fromSpool fills a spool, and measures until all records have arrived in a file.
func fromSpool(ctx context.Context, b *bench) ([]float64, error) {
	a, err := b.start(ctx, pipeline(0, source("builtin:generator", fast+", recordCount: 3000000"),
		destination("builtin:spool", "path: spool")))
	if err != nil {
		return nil, err
	}
	err = await(ctx, "a full spool", func() bool { n, _ := b.spooled(); return n >= inputLines })
	if err = a.stop(err); err != nil {
		return nil, err
	}
	if a, err = b.start(ctx, pipeline(0, source("builtin:spool", "path: spool"), toFile("builtin", 0))); err != nil {
		return nil, err
	}
	return b.allArrive(ctx, a)
}
