package main

import (
	"math"
	"testing"
)

func TestCells(t *testing.T) {
	for want, got := range map[string]string{
		"1,234,567":           number("%.0f", 1234567),
		"999":                 number("%.0f", 999),
		"12,345.68":           number("%.2f", 12345.678),
		"2.0 (1.0–3.0)":       column{format: "%.1f"}.cell([]float64{3, 1, 2}),
		"2 (1–1,000)":         column{format: "%.0f"}.cell([]float64{1000, 1, 2, 3}),
		"7":                   column{format: "%.0f"}.cell([]float64{7, 7, 7}),
		"6":                   column{format: "%.0f", total: true}.cell([]float64{3, 1, 2}),
		"1,001 (1,000–1,002)": column{format: "%.0f"}.cell([]float64{1001, 1002, 1000}),
		"":                    column{format: "%.2f"}.cell([]float64{math.NaN(), 1}),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	sorted := make([]float64, 1001)
	for i := range sorted {
		sorted[i] = float64(i)
	}
	for q, want := range map[float64]float64{0: 0, .5: 500, .99: 990, .999: 999, 1: 1000} {
		if got := quantile(sorted, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

// A case is chosen by its name, so names are unique.
func TestCasesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range choose(suites("conduit"), "", true) {
		for _, c := range s.cases {
			if name := s.name + ": " + c.name; seen[name] {
				t.Errorf("there are two cases %q", name)
			} else {
				seen[name] = true
			}
		}
	}
	if some := choose(suites(""), "latency: 1 record", false); len(some) != 1 || len(some[0].cases) != 2 {
		t.Errorf("chose %d tables", len(some))
	}
}

func TestMetricsAreRead(t *testing.T) {
	const metrics = `# HELP lag_seconds
lag_seconds_bucket{pipeline_name="p",le="0.05"} 98
lag_seconds_bucket{pipeline_name="p",le="0.1"} 99
lag_seconds_bucket{pipeline_name="p",le="+Inf"} 100
lag_seconds_sum{pipeline_name="p"} 5
lag_seconds_count{pipeline_name="p"} 100
`
	if got := within(metrics, "lag_seconds", .99); got != .1 {
		t.Errorf("99 %% are within %v, want 0.1", got)
	}
	if got := mean(metrics, "lag_seconds"); got != .05 {
		t.Errorf("the mean is %v, want 0.05", got)
	}
}
