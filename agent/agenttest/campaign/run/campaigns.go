package main

import "time"

// module is the directory of the module of campaigns.
const module = "agent/agenttest/campaign"

// Campaign is a group of tests that need servers, other programs, many kills, hours or a quiet machine.
type Campaign struct {
	Name  string
	About string // what it shows, for people
	Dir   string // of the package, from the top of the repository
	Run   string // the tests, as for -test.run; "" is all
	Skip  string // tests left out, as for -test.skip
	Full  string // flags of the full run; without them tests have the sizes of the gate

	// Subjects are what the campaign judges: packages, with "/..." those below as well, or patterns of files. The gate runs
	// it when one of them, or what it imports, changed.
	Subjects []string
	Always   bool // the gate runs it after each change
	FullOnly bool // the gate never runs it: it needs more time than a gate has, or a quiet machine

	Limit time.Duration // after which a full run counts as hanging; 0 is an hour
}

var campaigns = []Campaign{
	{Name: "smoke", Dir: module + "/smoke", Always: true,
		About: "The built binary runs the demo, reloads, refuses a broken file, and loses no line to `kill -9`.",
		Full:  "-kills=100"},
}
