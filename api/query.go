package api

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

const (
	maxPattern      = 512  // bytes of a regular expression
	maxInstructions = 1000 // approximate size after compilation

	defaultWait = 25 * time.Second // to wait for the effect of an action
	maxWait     = 10 * time.Minute // that a client may ask for
)

// numberParam returns the value of a query parameter that is a number from 0.
func numberParam(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fieldError(spec.CodeInvalid, name, name+" must be a non-negative integer, not "+strconv.Quote(text))
	}
	return n, nil
}

// flagParam returns the value of a query parameter that is true or false. A parameter without a value is true.
func flagParam(r *http.Request, name string) (bool, error) {
	query := r.URL.Query()
	if text := query.Get(name); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return false, fieldError(spec.CodeInvalid, name, name+" must be true or false, not "+strconv.Quote(text))
		}
		return on, nil
	}
	return query.Has(name), nil
}

// namePattern returns the value of ?name=, a regular expression that matches whole names.
func namePattern(r *http.Request) (*regexp.Regexp, error) {
	name := r.URL.Query().Get("name")
	if name == "" {
		return regexp.MustCompile(""), nil
	}
	if len(name) > maxPattern {
		return nil, fieldError(spec.CodeTooLong, "name", fmt.Sprintf("name is longer than %d bytes", maxPattern))
	}
	parsed, err := syntax.Parse(name, syntax.Perl)
	if err != nil {
		return nil, fieldError(spec.CodeInvalid, "name", "name is not a regular expression: "+err.Error())
	}
	if instructions(parsed) > maxInstructions {
		return nil, fieldError(spec.CodeTooLong, "name", "name has repetitions that need too much memory")
	}
	return regexp.Compile("^(?:" + name + ")$")
}

// waitTime returns how long the client wants to wait: seconds, or a duration such as 90s. It is called before the
// operation, so that a request with an invalid value has no effect.
func waitTime(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return defaultWait, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, serr := strconv.ParseUint(text, 10, 16); serr == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d < 0 || d > maxWait {
		return 0, fieldError(spec.CodeInvalid, "wait", "wait must be a time from 0 to "+maxWait.String())
	}
	return d, nil
}

// checkQuery refuses parameters that r's operation does not have, as they would be ignored. Parameters in snake case
// are converted to the names they stand for.
func checkQuery(r *http.Request, known []string) error {
	query, changed := r.URL.Query(), false
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if slices.Contains(known, name) {
			continue
		}
		i := slices.IndexFunc(known, func(k string) bool { return snake(k) == name })
		if i < 0 {
			e := fieldError(spec.CodeUnknown, name, fmt.Sprintf("%.60q is not a parameter of this operation", name))
			if near := texts.Closest(name, known); near != "" {
				e.Suggest("did you mean %q?", near)
			}
			return e
		}
		query[known[i]], changed = append(query[known[i]], query[name]...), true
		delete(query, name)
	}
	if changed {
		r.URL.RawQuery = query.Encode()
	}
	return nil
}

// instructions returns the approximate number of instructions of re, without compiling it.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+instructions(sub), maxInstructions+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxInstructions+1)
}
