package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

func TestMeanings(t *testing.T) {
	for id, want := range map[string]string{"a:b": "a+b", "a:b:c": "a+b:c a:b+c", "a": "", ":": "+", "ä:b": "ä+b"} {
		var got []string
		for pipeline, connector := range spec.Meanings(id) {
			got = append(got, pipeline+"+"+connector)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q may mean %q, want %q", id, s, want)
		}
	}
}

func TestClash(t *testing.T) {
	pipeline := func(id string, connectors ...string) *spec.Pipeline {
		p := &spec.Pipeline{ID: id}
		for _, c := range connectors {
			p.Connectors = append(p.Connectors, spec.Connector{ID: c})
		}
		return p
	}
	for _, c := range []struct {
		p, other *spec.Pipeline
		want     string
	}{
		{pipeline("a", "b"), pipeline("b", "a"), ""},
		{pipeline("a", "b:c"), pipeline("a:b", "c"), "a+b:c a:b+c"},
		{pipeline("a:b", "x", "c"), pipeline("a", "b:c"), "a:b+c a+b:c"},
		{pipeline("a:b", "c"), pipeline("a", "b:d"), ""},
		{pipeline("a", "s", "b:dead-letter-queue"), pipeline("a:b", "c"), "a+b:dead-letter-queue a:b+dead-letter-queue"},
		{pipeline("a:b", "c"), pipeline("a", "b:dead-letter-queue"), "a:b+dead-letter-queue a+b:dead-letter-queue"},
	} {
		got := ""
		clash := c.p.Clash(func(id string) []*spec.Pipeline {
			if id == c.other.ID {
				return []*spec.Pipeline{c.other}
			}
			return nil
		})
		if clash != nil {
			got = fmt.Sprintf("%s+%s %s+%s", clash.Pipeline, clash.Connector, clash.OtherPipeline, clash.OtherConnector)
		}
		if got != c.want {
			t.Errorf("%s and %s: %q, want %q", c.p.ID, c.other.ID, got, c.want)
		}
	}
}
