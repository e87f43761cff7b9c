package spec_test

import (
	"testing"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

func TestPlaces(t *testing.T) {
	places := spec.PlacesOf(map[string]yamldoc.Mark{"": {Line: 2, Column: 5}, "/connectors/0": {Line: 4, Column: 7},
		"/connectors/0/settings/a~1b": {Line: 5, Column: 54}, "/connectors/0/settings/two\nlines": {Line: 9, Column: 9},
		"/connectors/01": {Line: 8, Column: 1}})
	for pointer, want := range map[string]yamldoc.Mark{
		"":                                  {Line: 2, Column: 5},
		"/connectors/0/settings/a~1b":       {Line: 5, Column: 54},
		"/connectors/0/settings/a":          {Line: 4, Column: 7},
		"/connectors/0":                     {Line: 4, Column: 7},
		"/connectors/0/settings/two\nlines": {Line: 4, Column: 7},
		"/status":                           {Line: 2, Column: 5},
	} {
		if got := places.Closest(pointer); got != want {
			t.Errorf("%q is at %v, want %v", pointer, got, want)
		}
	}
	if m, ok := places.Mark("/status"); ok {
		t.Errorf("what the file does not spell out is at %v", m)
	}
	if m := spec.Places("").Closest("/id"); m != (yamldoc.Mark{}) {
		t.Errorf("without places, the id is at %v", m)
	}
	d := spec.Declaration{Pipeline: spec.Pipeline{ID: "p"},
		Owner: spec.Owner{Kind: spec.OwnerFile, Path: "p.yaml", Places: places}}
	want := spec.Problem{File: "p.yaml", Pipeline: "p", Line: 5, Column: 54, Path: "/connectors/0/settings/a~1b",
		Message: "bad"}
	if got := d.Locate(spec.Problem{Path: want.Path, Message: "bad"}); got != want {
		t.Errorf("located %+v, want %+v", got, want)
	}
}
