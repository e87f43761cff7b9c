package engine_test

import (
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// Bounds are inclusive, and readings accumulate, as Prometheus expects.
func TestHistogram(t *testing.T) {
	var h measure.Histogram
	h.Observe(measure.SizeBounds, 1024, 2)
	h.Observe(measure.SizeBounds, 1025, 1)
	h.ObserveMean(measure.SizeBounds, 3<<20, 1)
	h.ObserveMean(measure.SizeBounds, 100, 0) // no values
	count, sum, within := h.Read(measure.SizeBounds)
	if count != 4 || sum != 2*1024+1025+3<<20 || within[1<<10] != 2 || within[2<<10] != 3 || within[2<<20] != 3 {
		t.Errorf("%d values, sum %v, within %v", count, sum, within)
	}
	if n, s := h.Sum(); n != count || s != sum {
		t.Errorf("Sum is %d, %v", n, s)
	}
}

func TestHistogramIsConcurrent(t *testing.T) {
	var h measure.Histogram
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				h.Took(time.Second)
			}
		})
	}
	wg.Wait()
	if n, sum := h.Sum(); n != 4000 || sum != 4000 {
		t.Errorf("%d values, sum %v", n, sum)
	}
}

// Every eighth fast call is measured, the calls between count as if they took as long, and a failed call does not
// count.
func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s measure.Sampler
		var h measure.Histogram
		call := func(took time.Duration, err error) error {
			return s.Time(&h, new(measure.Meter), func() (int, error) { time.Sleep(took); return 2, err })
		}
		for i := range 9 {
			took := time.Minute // not measured
			if i%8 == 0 {
				took = time.Duration(1+i/8) * 100 * time.Microsecond
			}
			if err := call(took, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n, sum := h.Sum(); n != 18 || math.Abs(sum-10*100e-6) > 1e-9 {
			t.Errorf("%d records took %v s", n, sum)
		}
		failed := errors.New("failed")
		if err := call(time.Second, failed); err != failed {
			t.Errorf("error is %v", err)
		}
		if n, _ := h.Sum(); n != 18 {
			t.Errorf("a call that failed counts: %d", n)
		}
	})
}

// Counts continue while a connector is declared, and are removed with it.
func TestMeasuresOfAPipeline(t *testing.T) {
	var p measure.Pipeline
	p.Source("p:src").Passed(2, 100)
	p.Source("p:src").Passed(3, 50)
	p.Destination("p:dst").Records.Add(7)
	if s := p.Source("p:src"); s.Bytes.Load() != 150 {
		t.Errorf("%d bytes", s.Bytes.Load())
	}
	if n, sum := p.Source("p:src").Sizes.Sum(); n != 5 || sum != 150 {
		t.Errorf("%d sizes, sum %v", n, sum)
	}
	if !p.Ran("p:src") || !p.Ran("p:dst") || p.Ran("p:other") {
		t.Errorf("ran: %v, %v, %v", p.Ran("p:src"), p.Ran("p:dst"), p.Ran("p:other"))
	}
	seen := map[string]spec.ConnectorType{}
	p.Each(func(typ spec.ConnectorType, id string, c *measure.Connector) { seen[id] = typ })
	if len(seen) != 2 || seen["p:src"] != spec.TypeSource || seen["p:dst"] != spec.TypeDestination {
		t.Errorf("seen %v", seen)
	}
	p.Retain([]string{"p:dst"})
	if p.Ran("p:src") || p.Destination("p:dst").Records.Load() != 7 || p.Source("p:src").Bytes.Load() != 0 {
		t.Error("the source is remembered, or the destination is not")
	}
}
