package window

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/axiomhq/hyperloglog"
	"github.com/caio/go-tdigest/v4"
	"github.com/cespare/xxhash/v2"

	"github.com/conduit-agent/conduit/plugins/record"
)

// maxExact is the number of values up to which percentiles and numbers of distinct values are exact.
const maxExact = 1000

// digest computes a percentile of numbers.
type digest struct {
	exact []float64        // nil once there is an estimate
	large *tdigest.TDigest // nil while all values are kept
}

func (d *digest) add(f float64) error {
	if d.large != nil {
		return d.large.Add(f)
	}
	if d.exact = append(d.exact, f); len(d.exact) <= maxExact {
		return nil
	}
	large, err := tdigest.New(tdigest.Compression(200), tdigest.LocalRandomNumberGenerator(1))
	for _, f := range d.exact {
		if err == nil {
			err = large.Add(f)
		}
	}
	d.exact, d.large = nil, large
	return err
}

// percentile returns the smallest value that at least p percent of the values do not exceed.
func (d *digest) percentile(p float64) float64 {
	if d.large != nil {
		return d.large.Quantile(p / 100)
	}
	slices.Sort(d.exact)
	return d.exact[max(0, int(math.Ceil(p/100*float64(len(d.exact))))-1)]
}

// distinct counts distinct values.
type distinct struct {
	exact map[uint64]struct{} // hashes of the values; nil once there is an estimate
	large *hyperloglog.Sketch // nil while all hashes are kept
	text  []byte              // of the last value; it is kept to save allocations
}

func (d *distinct) add(v any) error {
	text, err := record.AppendValue(d.text[:0], v)
	if err != nil {
		return err
	}
	d.text = text
	hash := xxhash.Sum64(text)
	if d.large != nil {
		d.large.InsertHash(hash)
		return nil
	}
	if d.exact == nil {
		d.exact = map[uint64]struct{}{}
	}
	if d.exact[hash] = struct{}{}; len(d.exact) <= maxExact {
		return nil
	}
	d.large = hyperloglog.NewNoSparse() // a sparse one takes longer; the map of hashes took more memory than it
	for hash := range d.exact {
		d.large.InsertHash(hash)
	}
	d.exact = nil
	return nil
}

func (d *distinct) count() int64 {
	if d.large != nil {
		return int64(d.large.Estimate())
	}
	return int64(len(d.exact))
}

// toFloat returns a number as a float64, rounded if necessary.
func toFloat(v any) (float64, error) {
	if f, ok := number(v); ok && !math.IsInf(f, 0) {
		return f, nil
	}
	if n, ok := v.(json.Number); ok {
		if f, err := n.Float64(); err == nil {
			return f, nil
		}
		return 0, fmt.Errorf("%.50s is too great", n)
	}
	return 0, errNumber
}
