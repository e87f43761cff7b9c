package sdk

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/spec/texts"
)

// SettingError is an error in one setting.
type SettingError struct {
	Setting string
	Message string
}

// Error returns `"setting": message`.
func (e SettingError) Error() string { return fmt.Sprintf("%q: %s", e.Setting, e.Message) }

// ApplyDefaults returns a copy of settings in which keys and values have lost the white
// space around them, and settings that are missing or empty have their default. The
// default of a name with '*' applies to every instance that has another setting.
func (p Parameters) ApplyDefaults(settings map[string]string) map[string]string {
	out := make(map[string]string, len(settings)+len(p))
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		out[strings.TrimSpace(k)] = strings.TrimSpace(settings[k])
	}
	instances := p.instances(out)
	for name, param := range p {
		if param.Default != "" && out[name] == "" && !isPattern(name) {
			out[name] = param.Default
		}
	}
	for name, param := range instances {
		if param.Default != "" && out[name] == "" {
			out[name] = param.Default
		}
	}
	return out
}

// Check returns all errors in the settings, sorted by setting: names that are no parameter, values of the wrong type,
// and values that break a rule. An empty value counts as the default, or as no value if there is no default.
func (p Parameters) Check(settings map[string]string) []SettingError {
	return p.check(p.ApplyDefaults(settings))
}

// check is Check for settings that have their defaults.
func (p Parameters) check(settings map[string]string) []SettingError {
	instances := p.instances(settings)
	var errs []SettingError
	for name := range settings {
		if (isPattern(name) || !p.knows(name)) && !instances.knows(name) {
			errs = append(errs, SettingError{name, unknownMessage(name, p, instances)})
		}
	}
	for name, param := range p {
		if !isPattern(name) {
			errs = param.check(errs, name, settings[name])
		}
	}
	for name, param := range instances {
		errs = param.check(errs, name, settings[name])
	}
	sort.Slice(errs, func(i, j int) bool {
		a, b := &errs[i], &errs[j]
		return cmp.Or(strings.Compare(a.Setting, b.Setting), strings.Compare(a.Message, b.Message)) < 0
	})
	return errs
}

// isPattern reports whether name contains a '*'.
func isPattern(name string) bool { return strings.Contains(name, "*") }

// knows reports whether p contains name literally.
func (p Parameters) knows(name string) bool {
	_, ok := p[name]
	return ok
}

// instances returns the parameters that the names with '*' stand for in the settings. A literal name takes precedence
// over a name with '*', and a name with fewer '*' over one with more.
func (p Parameters) instances(settings map[string]string) Parameters {
	out, stars := Parameters{}, map[string]int{}
	for pattern, param := range p {
		n := strings.Count(pattern, "*")
		if n == 0 {
			continue
		}
		for setting := range settings {
			name, ok := instance(pattern, setting)
			if before := stars[name]; ok && !p.knows(name) && (before == 0 || n < before) {
				out[name], stars[name] = param, n
			}
		}
	}
	return out
}

// instance returns the name that pattern has in the group that setting belongs to:
// for a.*.b and a.x.c it is a.x.b.
func instance(pattern, setting string) (string, bool) {
	if start, _, _ := strings.Cut(pattern, "*"); !strings.HasPrefix(setting, start) {
		return "", false
	}
	want, have := strings.Split(pattern, "."), strings.Split(setting, ".")
	last := 0
	for i, w := range want {
		if strings.Contains(w, "*") {
			last = i
		}
	}
	if len(have) <= last || last == len(want)-1 && len(have) != len(want) {
		return "", false
	}
	for i, w := range want[:last+1] {
		if !matchSegment(w, have[i]) {
			return "", false
		}
	}
	return strings.Join(append(have[:last+1:last+1], want[last+1:]...), "."), true
}

func matchSegment(pattern, s string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	return len(s) > len(before)+len(after) && strings.HasPrefix(s, before) && strings.HasSuffix(s, after)
}

// check appends the errors in the value of the setting with this name.
func (p Parameter) check(errs []SettingError, name, value string) []SettingError {
	if value == "" {
		if slices.ContainsFunc(p.Validations, func(v Validation) bool { return v.Type == ValidationRequired }) {
			errs = append(errs, SettingError{name, "is required"})
		}
		return errs
	}
	if msg := p.Type.check(value); msg != "" {
		return append(errs, SettingError{name, msg})
	}
	if p.Literal && strings.Contains(value, "{{") {
		errs = append(errs, SettingError{name, "cannot be a template: {{ would be a part of the name"})
	}
	if p.Template && strings.Contains(value, "{{") {
		if _, err := template.ParsePath(value, "", time.UTC); err != nil { // has all functions of any template
			errs = append(errs, SettingError{name, err.Error()})
		}
	}
	for _, v := range p.Validations {
		if msg := v.check(p.Type, value); msg != "" {
			errs = append(errs, SettingError{name, msg})
		}
	}
	return errs
}

func (t ParameterType) check(value string) string {
	var err error
	want := ""
	switch t {
	case TypeInt:
		want = "an integer"
		if _, err = strconv.ParseInt(value, 10, 64); err != nil {
			_, err = strconv.ParseUint(value, 10, 64)
		}
	case TypeFloat:
		want = "a number"
		_, err = parseNumber(value)
	case TypeBool:
		want = "true or false"
		_, err = strconv.ParseBool(value)
	case TypeDuration:
		want = "a duration such as 500ms, 10s or 1h30m"
		_, err = time.ParseDuration(value)
	}
	if err != nil {
		return fmt.Sprintf("must be %s, not %q", want, value)
	}
	return ""
}

// check returns a description of the error in the value. It does not repeat values that may be secret.
func (v Validation) check(t ParameterType, value string) string {
	switch v.Type {
	case ValidationGreaterThan:
		if c, ok := compareNumbers(t, value, v.Value); !ok || c <= 0 {
			return fmt.Sprintf("must be greater than %s, not %s", v.Value, value)
		}
	case ValidationLessThan:
		if c, ok := compareNumbers(t, value, v.Value); !ok || c >= 0 {
			return fmt.Sprintf("must be less than %s, not %s", v.Value, value)
		}
	case ValidationInclusion:
		if all := splitList(v.Value); !slices.Contains(all, value) {
			return fmt.Sprintf("must be one of %s, not %q", strings.Join(all, ", "), value)
		}
	case ValidationExclusion:
		if all := splitList(v.Value); slices.Contains(all, value) {
			return fmt.Sprintf("must not be one of %s", strings.Join(all, ", "))
		}
	case ValidationRegex:
		if re, err := regexp.Compile(v.Value); err != nil || !re.MatchString(value) {
			return fmt.Sprintf("must match the expression %s", v.Value)
		}
	}
	return ""
}

// valid returns an error if v contradicts itself.
func (v Validation) valid() (err error) {
	switch v.Type {
	case 0:
		return errors.New("must be required, gt, lt, inclusion, exclusion or regex")
	case ValidationGreaterThan, ValidationLessThan:
		if _, err = time.ParseDuration(v.Value); err != nil {
			_, err = parseNumber(v.Value)
		}
	case ValidationRegex:
		_, err = regexp.Compile(v.Value)
	}
	return err
}

// compareNumbers compares two durations if t is the type for durations, else two numbers.
func compareNumbers(t ParameterType, a, b string) (int, bool) {
	if t == TypeDuration {
		da, errA := time.ParseDuration(a)
		db, errB := time.ParseDuration(b)
		if errB != nil {
			var seconds float64
			seconds, errB = parseNumber(b)
			db = time.Duration(seconds * float64(time.Second))
		}
		return cmp.Compare(da, db), errA == nil && errB == nil
	}
	fa, errA := parseNumber(a)
	fb, errB := parseNumber(b)
	return cmp.Compare(fa, fb), errA == nil && errB == nil
}

func parseNumber(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return 0, strconv.ErrRange
	}
	return f, err
}

func splitList(s string) []string {
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// unknownMessage returns the message for an unknown name. It suggests a similar name from p or from the instances of
// its patterns.
func unknownMessage(name string, p, instances Parameters) string {
	known := slices.AppendSeq(slices.Collect(maps.Keys(p)), maps.Keys(instances))
	known = slices.DeleteFunc(known, isPattern)
	slices.Sort(known)
	return "is not a setting of this plugin" + texts.Hint(name, known)
}
