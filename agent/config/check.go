package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/knadh/koanf/maps"

	"github.com/conduit-agent/conduit/schemas"
)

// check returns the problem with a value for s, "" for none. The schema decides; the message names the setting.
func (s *Setting) check(value any) string {
	if value == nil {
		return ""
	}
	nested := maps.Unflatten(map[string]any{s.Key: value}, ".")
	violations := schemas.ValidateProperty(schemas.AgentConfig, nested)
	if len(violations) == 0 && s.holds(value) {
		return ""
	}
	is := show(value)
	switch {
	case len(s.Values) > 0:
		return fmt.Sprintf("%s is not one of %s", is, strings.Join(s.Values, ", "))
	case s.Type() == "duration":
		return is + " is not a duration such as 500ms, 10s or 1h30m"
	case s.Type() == "int" && !isInt(value):
		return is + " is not a whole number"
	case s.Type() == "bool":
		return is + " is neither true nor false"
	}
	return violations[0].Message
}

// holds reports whether the Go type for s can hold a value that the schema allows. The schema knows the syntax of a
// duration, and numbers of any size.
func (s *Setting) holds(value any) bool {
	switch s.Type() {
	case "duration":
		_, err := time.ParseDuration(value.(string))
		return err == nil
	case "int":
		return isInt(value)
	}
	return true
}

func show(value any) string {
	if _, list := value.([]any); list {
		return "a list"
	}
	return fmt.Sprintf("%#v", value)
}

func isInt(v any) bool {
	switch v := v.(type) {
	case int:
		return true
	case float64: // 2.0 is a whole number, too
		return v == math.Trunc(v) && math.Abs(v) < math.MaxInt32
	}
	return false
}
