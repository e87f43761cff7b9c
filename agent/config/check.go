package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/knadh/koanf/maps"

	"github.com/conduit-agent/conduit/schemas"
)

// check says what is wrong with a value for s, "" when nothing is. The schema decides;
// the words are those of the setting.
func (s *Setting) check(value any) string {
	if value == nil {
		return ""
	}
	nested := maps.Unflatten(map[string]any{s.Key: value}, ".")
	violations := schemas.Validate(schemas.AgentConfig, nested)
	if len(violations) == 0 && s.inRange(value) {
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

// inRange reports whether a duration is one that Go can hold. The schema knows only
// how one is written.
func (s *Setting) inRange(value any) bool {
	if s.Type() != "duration" {
		return true
	}
	_, err := time.ParseDuration(value.(string))
	return err == nil
}

func show(value any) string {
	if _, list := value.([]any); list {
		return "a list"
	}
	return fmt.Sprintf("%#v", value)
}

func isInt(v any) bool { _, ok := v.(int); return ok }
