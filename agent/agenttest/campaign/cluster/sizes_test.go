package cluster_test

import (
	"flag"
	"time"
)

// Sizes of the tests. The defaults are enough for a change; run/campaigns.go has those of the full campaigns.
var (
	failovers = flag.Int("failovers", 4, "faults of TestFailovers, in all of its clusters")
	clusters  = flag.Int("clusters", 1, "clusters of TestFailovers, side by side")
	members   = flag.Int("members", 3, "members of each cluster of TestFailovers")
	session   = flag.Duration("session", 5*time.Second,
		"time that a session lives in TestFailovers and TestReorderedLinks")
	jumps    = flag.Int("jumps", 1, "jumps of the clocks of TestWrongClocks")
	kills    = flag.Int("kills", 1, "kills of TestSharedLetters")
	refusals = flag.Int("refusals", 400, "lines of TestHeavyRefusal, of which every second one is refused")

	manyPipelines = flag.Int("many.pipelines", 40, "pipelines of TestManyPipelines")
	manyMembers   = flag.Int("many.members", 2, "members of TestManyPipelines")
	manyServers   = flag.Int("many.servers", 1, "NATS servers of TestManyPipelines")
	manyRest      = flag.Duration("many.rest", 5*time.Second,
		"time in which TestManyPipelines counts what is written while nothing happens")
)
