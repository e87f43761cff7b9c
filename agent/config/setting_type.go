package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec/texts"
)

// DefaultPath is the path of the settings if none is given.
const DefaultPath = "conduit.yaml"

// Setting declares a setting. Its key in conduit.yaml, its variable, its flag, the checks of values, and the texts in
// the schema, in help and in README.md follow from the declaration.
type Setting struct {
	Key         string // in conduit.yaml, and the name of the flag
	Field       any    // pointer to the field of Config: *string, *int, *int64, *bool or *time.Duration
	Default     any    // in the type of the field; in a declaration, nil stands for the zero value
	Description string
	Values      []string // the only values, or items of a list, that are allowed; empty: all
	Min         int      // the least number
	Required    bool     // text must not be empty
	List        bool     // text is separated by commas; conduit.yaml may have a list instead
	Octal       bool     // text is an octal number of three digits; conduit.yaml may have it without quotes
	Example     string
	Secrecy     Secrecy
}

// settings returns the declarations, bound to the fields of c.
func (c *Config) settings() []Setting {
	all := c.declarations()
	for i := range all {
		if s := &all[i]; s.Default == nil {
			s.Default = reflect.Zero(reflect.TypeOf(s.Field).Elem()).Interface()
		}
	}
	return all
}

// declared are the declarations for those who need no values. Every command looks up its flags when it starts.
var declared = sync.OnceValue(func() []Setting { return new(Config).settings() })

// Settings returns every setting, in reading order.
func Settings() []Setting { return slices.Clone(declared()) }

// Groups returns every group of settings, in reading order.
func Groups() []Group { return slices.Clone(groups) }

// Find returns the setting with this key, false if there is none.
func Find(key string) (Setting, bool) {
	i := slices.IndexFunc(declared(), func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return declared()[i], true
}

// Default returns the default of the setting with this key, nil if there is none.
func Default(key string) any {
	s, _ := Find(key)
	return s.Default
}

// Env returns the name of the environment variable of s.
func (s *Setting) Env() string { return envName(s.Key) }

func envName(key string) string {
	return "CONDUIT_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// Type returns the type of a value as a word for people: string, int, bool or duration.
func (s *Setting) Type() string {
	switch s.Default.(type) {
	case time.Duration:
		return "duration"
	case int64:
		return "int"
	}
	return fmt.Sprintf("%T", s.Default)
}

// Meaning returns the description with the allowed values.
func (s *Setting) Meaning() string {
	switch {
	case len(s.Values) == 0:
		return s.Description
	case s.List:
		return s.Description + " Any of: " + strings.Join(s.Values, ", ") + "."
	}
	return s.Description + " One of: " + strings.Join(s.Values, ", ") + "."
}

// DefaultText returns the default as a user would write it.
func (s *Setting) DefaultText() string { return text(s.Default) }

func text(value any) string {
	if d, ok := value.(time.Duration); ok {
		return DurationText(d)
	}
	return fmt.Sprint(value)
}

// DurationText is d as Go writes it, without parts that are zero: 10m, not 10m0s.
func DurationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// value returns the value of the field.
func (s *Setting) value() any { return reflect.ValueOf(s.Field).Elem().Interface() }

// set sets the field. The value has its type.
func (s *Setting) set(value any) { reflect.ValueOf(s.Field).Elem().Set(reflect.ValueOf(value)) }

// parse reads the text of a flag or of a variable as a scalar of YAML. Text that is no such scalar stays text, which
// read refuses.
func (s *Setting) parse(text string) any {
	switch s.Default.(type) {
	case int, int64:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case bool:
		if v, err := strconv.ParseBool(text); err == nil {
			return v
		}
	}
	return text
}

// read returns a value of conduit.yaml in the type of the setting, or a problem if the setting does not allow it.
func (s *Setting) read(value any) (typed any, problem string) {
	switch s.Default.(type) {
	case bool:
		if _, ok := value.(bool); !ok {
			return nil, show(value) + " is neither true nor false"
		}
		return value, ""
	case int:
		n, problem := s.number(value, math.MinInt, math.MaxInt)
		return int(n), problem
	case int64:
		n, problem := s.number(value, math.MinInt64, math.MaxInt64)
		return n, problem
	case time.Duration:
		text, _ := value.(string)
		d, err := time.ParseDuration(text)
		if err != nil || !durations().MatchString(text) {
			return nil, show(value) + " is not a duration such as 500ms, 10s or 1h30m"
		}
		return d, ""
	}
	return value, s.checkText(value)
}

// The texts that a duration and an octal number may have, as in the schema.
var (
	durations = texts.Regexp(`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`)
	octals    = texts.Regexp(`^0?[0-7]{3}$`)
)

// checkText returns the problem with a value of a setting that is text.
func (s *Setting) checkText(value any) string {
	text, isText := value.(string)
	_, isList := value.([]any)
	switch {
	case len(s.Values) > 0 && !s.List && !slices.Contains(s.Values, text):
		return show(value) + " is not one of " + strings.Join(s.Values, ", ")
	case isList && s.List:
		return "the items of the list must be text, without lists or groups in them"
	case isList:
		return "a list is not allowed here"
	case !isText:
		return show(value) + " is not text: put it in quotes"
	case s.Required && text == "":
		return "must not be empty"
	case s.Octal && !octals().MatchString(text):
		return show(value) + " is not an octal number such as 0660"
	case s.List && len(s.Values) > 0:
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" && !slices.Contains(s.Values, item) {
				return show(item) + " is not one of " + strings.Join(s.Values, ", ")
			}
		}
	}
	return ""
}

func show(value any) string {
	switch value := value.(type) {
	case []any:
		return "a list"
	case string:
		return strconv.Quote(value)
	}
	return fmt.Sprint(value)
}

// number returns a number of YAML, or a problem if it is not a whole number from least to most, or less than Min.
func (s *Setting) number(value any, least, most int64) (n int64, problem string) {
	whole := true
	switch v := value.(type) {
	case int:
		n = int64(v)
	case int64:
		n = v
	case float64: // 2.0 is a whole number, too
		n, whole = int64(v), v == math.Trunc(v) && math.Abs(v) < math.MaxInt32
	default:
		whole = false
	}
	switch {
	case !whole || n < least || n > most:
		return 0, show(value) + " is not a whole number"
	case n < int64(s.Min):
		return 0, fmt.Sprintf("must be at least %d, not %d", s.Min, n)
	}
	return n, ""
}
