package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// selection says which records a session wants to see.
type selection struct {
	conditions []func(*frame) bool
	interval   time.Duration // between two records at least
}

// selectionOf reads ?filter=operation=create&filter=metadata.KEY=VALUE&rate=10.
func selectionOf(r *http.Request) (selection, error) {
	var s selection
	query := r.URL.Query()
	for _, text := range query["filter"] {
		condition, err := parseCondition(text)
		if err != nil {
			return s, err
		}
		s.conditions = append(s.conditions, condition)
	}
	if text := query.Get("rate"); text != "" {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate > 0.001 && rate < 1e9) {
			return s, fieldError(spec.CodeInvalid, "rate", "rate must be a number of records per second above 0, not "+strconv.Quote(text))
		}
		s.interval = time.Duration(float64(time.Second) / rate)
	}
	return s, nil
}

func parseCondition(text string) (func(*frame) bool, error) {
	name, value, ok := strings.Cut(text, "=")
	key, isMetadata := strings.CutPrefix(name, "metadata.")
	switch {
	case ok && isMetadata && key != "":
		return func(f *frame) bool { return f.metadata.Get(key) == value }, nil
	case ok && name == "operation":
		operation, err := record.ParseOperation(strings.ToLower(strings.TrimPrefix(value, "OPERATION_")))
		if err != nil {
			return nil, fieldError(spec.CodeInvalid, "filter", err.Error())
		}
		return func(f *frame) bool { return f.operation == operation }, nil
	}
	return nil, fieldError(spec.CodeInvalid, "filter", "filter must be operation=NAME or metadata.KEY=VALUE, not "+strconv.Quote(text))
}

func (s *selection) matches(f *frame) bool {
	for _, condition := range s.conditions {
		if !condition(f) {
			return false
		}
	}
	return true
}
