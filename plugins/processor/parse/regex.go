package parse

import (
	"context"
	"errors"
	"regexp"
	"slices"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// regex parses a text by a regular expression.
type regex struct {
	options
	// RE2 expression with named groups, such as (?P<id>[0-9]+). It may match anywhere: ^ and $ stand for the ends of
	// the text. The first match counts.
	Pattern string `json:"pattern" validate:"required"`
	typed
}

// group is a named group of an expression.
type group struct {
	name  string
	index int
	read  texttype.Read
}

var errNoMatch = errors.New("the pattern does not match")

func (x *regex) compile() (parseFunc, error) {
	expression, err := regexp.Compile(x.Pattern)
	if err != nil {
		return nil, sdk.SettingError{Setting: "pattern", Message: err.Error()}
	}
	names := expression.SubexpNames()
	all, err := x.compileTypes(names)
	if err != nil {
		return nil, err
	}
	var groups []group
	for i, name := range names {
		if name == "" {
			continue
		}
		if slices.Contains(names[:i], name) {
			return nil, sdk.SettingError{Setting: "pattern", Message: texttype.Quoted(name) + " is the name of two groups"}
		}
		groups = append(groups, group{name, i, all.Reader(name)})
	}
	if groups == nil {
		return nil, sdk.SettingError{Setting: "pattern", Message: "it has no named group, such as (?P<id>[0-9]+)"}
	}
	return func(_ context.Context, v any, m *memory) (any, error) {
		text, err := textOf(v)
		if err != nil {
			return nil, err
		}
		if err := m.take(memberBytes * len(groups)); err != nil {
			return nil, err
		}
		at := expression.FindStringSubmatchIndex(text)
		if at == nil {
			return nil, errNoMatch
		}
		made := make(map[string]any, len(groups))
		for _, g := range groups {
			if at[2*g.index] < 0 {
				continue
			}
			if made[g.name], err = g.read.Value(g.name, text[at[2*g.index]:at[2*g.index+1]]); err != nil {
				return nil, err
			}
		}
		return made, nil
	}, nil
}
