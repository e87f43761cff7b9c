package e2e_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// The flaws of a version that keep it from running, by where they show.
const (
	flawPlugin   = "plugin"   // there is none of this name
	flawSettings = "settings" // refused by Configure
	flawOpen     = "open"     // a connector cannot be opened
	flawInvalid  = "invalid"  // the file is wrong there, though it names the pipeline
)

// version is what is declared of a pipeline.
type version struct {
	in, out int // versions of the source and of the destination
	flaw    string
	stopped bool
}

func (v version) String() string {
	s := fmt.Sprintf("%d>%d", v.in, v.out)
	if v.stopped {
		s += " stopped"
	}
	return strings.TrimSpace(s + " " + v.flaw)
}

// runs returns what differs between versions that run differently.
func (v version) runs() version { v.stopped = false; return v }

// content is what a file says.
type content struct {
	broken bool // what it declares is not known completely
	empty  bool // there is nothing in it, which is broken, too
	says   map[string]version
}

func (c *content) String() string {
	s := strings.TrimPrefix(fmt.Sprint(c.says), "map")
	if c.broken {
		s += " and is broken"
	}
	return s
}

// model is what is to be declared and to run, going by nothing but complete scans of the
// files, by what came over the API, and by the time.
type model struct {
	dir     int  // which directory it is: another number, another directory
	missing bool // there is none
	files   map[string]*content

	// What is known from the last scans.
	known     map[string]bool
	last      int  // directory
	populated bool // there were files in it
	confirmed bool // or it was confirmed that there need not be
	retained  bool // all files are gone, and that counts for nothing

	declared map[string]*intent // by pipeline
	deleted  map[string]int64   // last generations of pipelines that were deleted
	faulty   map[string]bool    // files with errors
}

// intent is what is declared of a pipeline, and what has come of it.
type intent struct {
	version
	owner      string // path of the file; "" for the API
	generation int64
	override   spec.Status
	withdrawn  time.Time // zero while it is declared
	purge      bool

	running ran       // zero when nothing runs
	since   time.Time // when that was to run
	good    ran       // proved itself last
	gaveUp  int64     // generation that refused a record
	maybe   ran       // may run though withdrawn: the agent may have started it before it scanned
}

func (d *intent) String() string {
	owner := cmp.Or(d.owner, "the API")
	s := fmt.Sprintf("%s of %s, generation %d, running %s, good %s", d.version, owner, d.generation, d.running, d.good)
	if d.override != "" {
		s += ", override " + string(d.override)
	}
	if !d.withdrawn.IsZero() {
		s += ", withdrawn " + d.withdrawn.Format(time.TimeOnly)
	}
	if d.purge {
		s += " for good"
	}
	if d.gaveUp != 0 {
		s += fmt.Sprintf(", gave up %d", d.gaveUp)
	}
	return s
}

// ran is a version that runs or did.
type ran struct {
	version
	generation int64
}

func (r ran) String() string {
	if r.generation == 0 {
		return "none"
	}
	return fmt.Sprintf("%d>%d (%d)", r.in, r.out, r.generation)
}

func (d *intent) wants() bool {
	return d.withdrawn.IsZero() && (d.override == spec.StatusRunning || d.override == "" && !d.stopped)
}

func newModel() model {
	return model{files: map[string]*content{}, declared: map[string]*intent{}, deleted: map[string]int64{}, known: map[string]bool{}}
}

// restarted forgets what only a running agent knows.
func (m *model) restarted() {
	m.last, m.populated, m.confirmed = 0, false, false
	for _, d := range m.declared {
		if d.running, d.gaveUp, d.maybe = (ran{}), 0, (ran{}); d.wants() {
			d.maybe = d.fit()
		}
	}
}

// converge takes in the files and brings about what is declared, until nothing changes.
func (m *model) converge(now time.Time) {
	for before := ""; before != m.String(); {
		before = m.String()
		m.scan(now)
		for id, d := range m.declared {
			m.run(id, d, now)
		}
	}
}

// scan takes in the files.
func (m *model) scan(now time.Time) {
	if m.retained = false; m.missing {
		m.populated, m.confirmed = false, false
		return
	}
	if m.dir != m.last {
		m.last, m.populated, m.confirmed = m.dir, false, false
	}
	used := false
	for name, c := range m.files {
		used = used || !c.empty || m.known[name]
	}
	if m.retained = !used && len(m.known) > 0 && !m.populated && !m.confirmed; m.retained {
		return
	}
	if len(m.files) > 0 {
		m.populated, m.confirmed = true, false
	}
	m.faulty = map[string]bool{}
	claims := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		m.faulty[name] = m.files[name].broken
		for id, v := range m.files[name].says {
			claims[id] = append(claims[id], name)
			m.faulty[name] = m.faulty[name] || v.flaw == flawInvalid
		}
	}
	for id, names := range claims {
		m.claimed(id, names, now)
	}
	for id, d := range m.declared {
		if claims[id] == nil && d.owner != "" {
			m.unclaimed(d, now)
		}
	}
	m.known = map[string]bool{}
	for name := range m.files {
		m.known[name] = true
	}
}

// claimed decides which of the files that declare a pipeline gets it.
func (m *model) claimed(id string, names []string, now time.Time) {
	d := m.declared[id]
	switch {
	case d != nil && (d.purge || d.owner == ""),
		d != nil && d.withdrawn.IsZero() && m.broken(d.owner) && !slices.Contains(names, d.owner):
		m.refuse(id, names, "")
	case d != nil && slices.Contains(names, d.owner):
		m.refuse(id, names, d.owner)
		m.grant(id, d.owner)
	case len(names) > 1:
		m.refuse(id, names, "")
	default:
		m.grant(id, names[0])
	}
}

func (m *model) refuse(id string, names []string, but string) {
	for _, name := range names {
		m.faulty[name] = m.faulty[name] || name != but && m.files[name].says[id].flaw != flawInvalid
	}
}

func (m *model) grant(id, name string) {
	v, d := m.files[name].says[id], m.declared[id]
	switch {
	case v.flaw != flawInvalid:
		m.declare(id, v, name)
	case d != nil && d.owner == name:
		d.withdrawn = time.Time{} // back, and what it declares is not known
	}
}

// declare makes v what is wanted.
func (m *model) declare(id string, v version, owner string) {
	d := m.declared[id]
	if d == nil {
		d = &intent{generation: m.deleted[id]}
		m.declared[id] = d
	}
	if d.generation == m.deleted[id] || d.version != v {
		d.generation++
		d.override = ""
	}
	d.version, d.owner, d.withdrawn = v, owner, time.Time{}
}

// unclaimed is about a pipeline that no file declares.
func (m *model) unclaimed(d *intent, now time.Time) {
	broken := m.broken(d.owner)
	switch {
	case d.purge:
	case !broken && d.withdrawn.IsZero():
		d.withdrawn = now
	case broken && !m.known[d.owner]:
		d.withdrawn = time.Time{} // back, and what it declares is not known
	}
}

func (m *model) broken(name string) bool {
	c := m.files[name]
	return c != nil && c.broken
}

// run brings about what is declared of a pipeline.
func (m *model) run(id string, d *intent, now time.Time) {
	over := func(after time.Duration) bool { return !d.withdrawn.IsZero() && !now.Before(d.withdrawn.Add(after)) }
	switch {
	case d.purge, over(simulatedGrace + simulatedCleanup):
		m.deleted[id] = d.generation
		delete(m.declared, id)
	case over(simulatedGrace), d.withdrawn.IsZero() && !d.wants():
		d.running, d.gaveUp = ran{}, 0
	case !d.withdrawn.IsZero():
		d.confirm(now)
	case d.gaveUp == d.generation:
		d.running = ran{}
	default:
		if r := d.fit(); r != d.running {
			d.running, d.since = r, now
		}
		d.confirm(now)
	}
}

// confirm takes what runs for good when it is better than none, no other than what is good
// already, or has run for long enough.
func (d *intent) confirm(now time.Time) {
	if d.running.generation != 0 && (d.good.generation == 0 || d.good.version == d.running.version || now.Sub(d.since) >= simulatedConfirm) {
		d.good = d.running
	}
}

// fit is what can run of what is declared: what runs, if that refused it at once.
func (d *intent) fit() ran {
	switch {
	case d.flaw == "":
		return ran{d.version.runs(), d.generation}
	case d.flaw != flawOpen && d.running.generation != 0:
		return d.running
	}
	return d.good
}

// String shows everything that converge may change.
func (m *model) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(m.declared)) {
		fmt.Fprintf(&b, "%s: %s\n", id, m.declared[id])
	}
	fmt.Fprint(&b, m.known, m.retained, m.faulty, m.last, m.populated, m.confirmed)
	return b.String()
}
