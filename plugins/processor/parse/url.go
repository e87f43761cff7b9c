package parse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/texttype"
)

// address parses a URL.
type address struct {
	options
	// Form of the query in the result: an object with the parameters, or the text.
	Query string `json:"query" default:"object" validate:"inclusion=object|text"`
	// Value of a parameter that occurs more than once: a list of all, the first, or the last.
	Duplicates string `json:"duplicates" default:"list" validate:"inclusion=list|first|last"`
	typed

	types texttype.Types
}

func (a *address) compile() (_ parseFunc, err error) {
	if a.types, err = a.compileTypes(nil); err != nil {
		return nil, err
	}
	return a.parse, nil
}

// members is the most members that a URL has, except for its parameters.
const members = 8

func (a *address) parse(_ context.Context, v any, m *memory) (any, error) {
	text, err := textOf(v)
	if err != nil {
		return nil, err
	}
	if err = m.take(members*memberBytes + len(text)); err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, reason(err)
	}
	made := make(map[string]any, members)
	for _, part := range []struct{ name, text string }{{"scheme", u.Scheme}, {"user", u.User.Username()},
		{"host", u.Hostname()}, {"path", u.Path + u.Opaque}, {"fragment", u.Fragment}} {
		if part.text != "" {
			made[part.name] = part.text
		}
	}
	if password, ok := u.User.Password(); ok {
		made["password"] = password
	}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("its port %s is not between 0 and 65535", texttype.Quoted(text))
		}
		made["port"] = int64(port)
	}
	switch {
	case u.RawQuery == "":
	case a.Query == "text":
		made["query"] = u.RawQuery
	default:
		made["query"], err = a.query(u.RawQuery, m)
	}
	return made, err
}

// reason removes the name of the operation and the text from an error of net/url: the text may have a password.
func reason(err error) error {
	var parsing *url.Error
	if errors.As(err, &parsing) {
		err = parsing.Err
	}
	var escape url.EscapeError
	var host url.InvalidHostError
	switch {
	case errors.As(err, &escape), errors.As(err, &host):
		return err
	case strings.Contains(err.Error(), "port"):
		return errors.New("its port is not a number")
	}
	return errors.New("it is not a URL")
}

func (a *address) query(text string, m *memory) (any, error) {
	made := map[string]any{}
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		if err := m.take(memberBytes + len(pair)); err != nil {
			return nil, err
		}
		key, value, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err == nil {
			value, err = url.QueryUnescape(value)
		}
		if err != nil {
			return nil, fmt.Errorf("its query: %w", err)
		}
		v, err := a.types.Reader(key).Value(key, value)
		if err != nil {
			return nil, err
		}
		if err := add(made, key, v, a.Duplicates); err != nil {
			return nil, err
		}
	}
	return made, nil
}
