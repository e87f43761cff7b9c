package jsonhttp

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

const (
	defaultWait = 60 * time.Second // for what an action leads to
	maxWait     = 10 * time.Minute // that a client may ask for
)

// Number returns the value of a parameter of the query that is a number from 0.
func Number(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, FieldError(spec.CodeInvalid, name, name+" must be a whole number from 0, not "+strconv.Quote(text))
	}
	return n, nil
}

// Flag returns the value of a parameter of the query that is true or false, and true by
// being there.
func Flag(r *http.Request, name string) (bool, error) {
	query := r.URL.Query()
	if text := query.Get(name); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return false, FieldError(spec.CodeInvalid, name, name+" must be true or false, not "+strconv.Quote(text))
		}
		return on, nil
	}
	return query.Has(name), nil
}

// Name returns what is asked for with ?name=, a regular expression for whole names.
func Name(r *http.Request) (*regexp.Regexp, error) {
	name := r.URL.Query().Get("name")
	if name == "" {
		return regexp.MustCompile(""), nil
	}
	re, err := regexp.Compile("^(?:" + name + ")$")
	if err != nil {
		return nil, FieldError(spec.CodeInvalid, "name", "name is not a regular expression: "+err.Error())
	}
	return re, nil
}

// Wait returns how long the client wants to wait: seconds, or a duration such as 90s.
// It is asked before anything is done, so that what is refused was not done.
func Wait(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return defaultWait, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, serr := strconv.ParseUint(text, 10, 16); serr == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d < 0 || d > maxWait {
		return 0, FieldError(spec.CodeInvalid, "wait", "wait must be a time from 0 to "+maxWait.String())
	}
	return d, nil
}
