package main

import (
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
)

func TestStatusTellsWhichSourcesWait(t *testing.T) {
	const waiting = "no record yet, open since 2026-01-02T03:04:05Z"
	got := behindWords(&rest.PipelineRates{Stages: map[string]rest.StageRates{"p:b": {Waiting: waiting}, "p:a": {Records: 1}}})
	if got != "p:b: "+waiting {
		t.Errorf("got %q", got)
	}
}
