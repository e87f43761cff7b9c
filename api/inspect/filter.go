package inspect

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// selection describes the records that a session wants to see.
type selection struct {
	filter   filter
	interval time.Duration // minimum time between two records
}

// filter is a list of conditions that a record must meet. The zero filter matches all records.
type filter struct {
	key        string // equal for equivalent filters
	conditions []condition
}

// condition reports whether record i of a batch meets it. It does not decode encoded records.
type condition func(b *record.Batch, i int) bool

// selectionOf reads ?filter=operation=create&filter=metadata.KEY=VALUE&rate=10.
func selectionOf(r *http.Request) (selection, error) {
	var s selection
	query := r.URL.Query()
	texts := slices.Clone(query["filter"])
	slices.Sort(texts)
	texts = slices.Compact(texts)
	s.filter.key = strings.Join(texts, "\x00")
	for _, text := range texts {
		condition, err := parseCondition(text)
		if err != nil {
			return s, err
		}
		s.filter.conditions = append(s.filter.conditions, condition)
	}
	if text := query.Get("rate"); text != "" {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate > 0.001 && rate < 1e9) {
			return s, invalid("rate", "rate must be a number of records per second above 0, not "+strconv.Quote(text))
		}
		s.interval = time.Duration(float64(time.Second) / rate)
	}
	return s, nil
}

// invalid returns the error for a parameter of the query.
func invalid(name, message string) error {
	e := rest.Errorf(rest.InvalidArgument, spec.CodeInvalid, "%s", message).With("configPath", name)
	e.Violations = []rest.Violation{{Field: name, Description: message}}
	return e
}

func parseCondition(text string) (condition, error) {
	name, value, ok := strings.Cut(text, "=")
	key, isMetadata := strings.CutPrefix(name, "metadata.")
	switch {
	case ok && isMetadata && key != "":
		return func(b *record.Batch, i int) bool { return b.Metadata(i, key) == value }, nil
	case ok && name == "operation":
		operation, err := record.ParseOperation(strings.ToLower(strings.TrimPrefix(value, "OPERATION_")))
		if err != nil {
			return nil, invalid("filter", err.Error())
		}
		return func(b *record.Batch, i int) bool { return b.Operation(i) == operation }, nil
	}
	return nil, invalid("filter", "filter must be operation=NAME or metadata.KEY=VALUE, not "+strconv.Quote(text))
}

func (f *filter) matches(b *record.Batch, i int) bool {
	for _, condition := range f.conditions {
		if !condition(b, i) {
			return false
		}
	}
	return true
}
