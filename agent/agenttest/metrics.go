package agenttest

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
)

// Scrape returns the value of the one series that starts with name and has all labels.
func Scrape(t testing.TB, a *Agent, series string) float64 {
	t.Helper()
	text := MetricsOf(a)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no series %s in\n%s", series, text)
	}
	v, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// MetricsOf returns the text of /metrics.
func MetricsOf(a *Agent) string {
	w := httptest.NewRecorder()
	a.Metrics().ServeHTTP(w, httptest.NewRequestWithContext(a.t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
