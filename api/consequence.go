package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
)

// consequence describes how moving the position affects the records of the source. A nil position means none.
func consequence(from, to record.Position) string {
	switch {
	case len(from) == 0 && len(to) == 0:
		return "The source has no position, so there is nothing to reset."
	case len(to) == 0:
		return "Without a position the source starts as its settings say: it delivers all records again that are " +
			"still available, and " +
			"skips records since the position, if its settings start with new records."
	case bytes.Equal(from, to):
		return "The source already resumes from this position."
	}
	return fmt.Sprintf("From %s %s", positionText(to), direction(from, to))
}

// positionText returns a position as text, or in base64 if it is no text.
func positionText(p record.Position) string {
	if utf8.Valid(p) && !bytes.ContainsFunc(p, unicode.IsControl) {
		return string(p)
	}
	return "base64 " + base64.StdEncoding.EncodeToString(p)
}

// direction describes the direction in which a position moves, as far as the fields of the two can be compared.
func direction(from, to record.Position) string {
	before, after := positionFields(from), positionFields(to)
	var earlier, later []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		old, known := before[name]
		switch words := strings.TrimSpace(fmt.Sprintf("%s %v instead of %v", name, after[name], old)); {
		case known && after[name] < old:
			earlier = append(earlier, words)
		case known && after[name] > old:
			later = append(later, words)
		}
	}
	switch {
	case len(earlier) > 0 && len(later) == 0:
		return fmt.Sprintf("it delivers the records in between again (%s).", strings.Join(earlier, ", "))
	case len(later) > 0 && len(earlier) == 0:
		return fmt.Sprintf("it skips the records in between (%s).", strings.Join(later, ", "))
	}
	return "it delivers the records in between again if the position is earlier, and skips them if it is later: only " +
		"the plugin can compare them."
}

// positionFields are the numbers of a position: the whole position, its beginning, or the fields of an object.
func positionFields(position record.Position) map[string]float64 {
	first, _, _ := strings.Cut(string(position), ";")
	if n, err := strconv.ParseUint(first, 10, 53); err == nil {
		return map[string]float64{"": float64(n)}
	}
	var v any
	if d := json.NewDecoder(bytes.NewReader(position)); d.Decode(&v) != nil || d.Decode(new(any)) != io.EOF {
		return nil
	}
	object, _ := v.(map[string]any)
	numbers := map[string]float64{}
	for name, value := range object {
		if n, ok := value.(float64); ok {
			numbers[name] = n
		}
	}
	return numbers
}
