package agenttest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// The settings of the agents that a Model predicts.
const (
	Confirm = 2 * time.Second
	Grace   = time.Minute
	Cleanup = 2 * time.Minute
)

// The flaws that prevent a version from running, by the stage that detects them.
const (
	FlawPlugin   = "plugin"   // no plugin has this name
	FlawSettings = "settings" // refused by Configure
	FlawOpen     = "open"     // a connector cannot be opened
	FlawInvalid  = "invalid"  // the file has an error there, but names the pipeline
)

// ModelVersion is a declared version of a pipeline.
type ModelVersion struct {
	In, Out int // versions of the source and of the destination
	Flaw    string
	Stopped bool
}

// String returns the versions of both connectors, "stopped" if applicable, and the flaw.
func (v ModelVersion) String() string {
	s := fmt.Sprintf("%d>%d", v.In, v.Out)
	if v.Stopped {
		s += " stopped"
	}
	return strings.TrimSpace(s + " " + v.Flaw)
}

// Runs returns v without the parts that do not change how it runs.
func (v ModelVersion) Runs() ModelVersion { v.Stopped = false; return v }

// ModelContent is the content of a pipeline file.
type ModelContent struct {
	Broken bool // some declarations are unknown
	Empty  bool // an empty file also counts as broken
	Says   map[string]ModelVersion
}

// String returns the declarations of the file.
func (c *ModelContent) String() string {
	s := strings.TrimPrefix(fmt.Sprint(c.Says), "map")
	if c.Broken {
		s += " and is broken"
	}
	return s
}

// Model predicts the declarations and running versions of an agent from complete scans of the pipeline files, from API
// requests, and from the time.
type Model struct {
	Dir     int  // identifies the directory of the pipeline files
	Missing bool // the directory does not exist
	Files   map[string]*ModelContent

	// Results of the last scans.
	Known     map[string]bool // files
	last      int             // Dir of the last scan
	populated bool            // the directory had files
	Confirmed bool            // a user confirmed that all files are gone
	Retained  bool            // all files are gone, and pipelines stay until a user confirms that

	Declared map[string]*ModelIntent // by pipeline
	deleted  map[string]int64        // last generations of pipelines that were deleted
	Faulty   map[string]bool         // files with errors
}

// ModelIntent is the declaration of a pipeline and its state.
type ModelIntent struct {
	ModelVersion
	Owner      string // path of the file; "" for the API
	Generation int64
	Override   spec.Status
	Withdrawn  time.Time // zero while it is declared
	Purge      bool

	Running ModelRan  // running version; zero for none
	Since   time.Time // when Running was started
	Good    ModelRan  // last known good version
	GaveUp  int64     // generation that refused a record
	Maybe   ModelRan  // may run although withdrawn: the agent may have started it before its first scan
}

// String describes the intent, including all fields that Converge may change.
func (d *ModelIntent) String() string {
	owner := cmp.Or(d.Owner, "the API")
	s := fmt.Sprintf("%s of %s, generation %d, running %s, good %s", d.ModelVersion, owner, d.Generation, d.Running,
		d.Good)
	if d.Override != "" {
		s += ", override " + string(d.Override)
	}
	if !d.Withdrawn.IsZero() {
		s += ", withdrawn " + d.Withdrawn.Format(time.TimeOnly)
	}
	if d.Purge {
		s += " for good"
	}
	if d.GaveUp != 0 {
		s += fmt.Sprintf(", gave up %d", d.GaveUp)
	}
	return s
}

// ModelRan is a version that runs or has run.
type ModelRan struct {
	ModelVersion
	Generation int64
}

// String names the version and its generation.
func (r ModelRan) String() string {
	if r.Generation == 0 {
		return "none"
	}
	return fmt.Sprintf("%d>%d (%d)", r.In, r.Out, r.Generation)
}

// Wants reports whether the pipeline should run.
func (d *ModelIntent) Wants() bool {
	return d.Withdrawn.IsZero() && (d.Override == spec.StatusRunning || d.Override == "" && !d.Stopped)
}

// NewModel returns the model of an agent that has read nothing yet.
func NewModel() Model {
	return Model{Files: map[string]*ModelContent{}, Declared: map[string]*ModelIntent{}, deleted: map[string]int64{},
		Known: map[string]bool{}}
}

// Restarted resets the state that a restart of the agent loses.
func (m *Model) Restarted() {
	m.last, m.populated, m.Confirmed = 0, false, false
	for _, d := range m.Declared {
		if d.Running, d.GaveUp, d.Maybe = (ModelRan{}), 0, (ModelRan{}); d.Wants() {
			d.Maybe = d.fit()
		}
	}
}

// Converge scans the files and starts, stops and deletes pipelines until nothing changes.
func (m *Model) Converge(now time.Time) {
	for before := ""; before != m.String(); {
		before = m.String()
		m.Scan(now)
		for id, d := range m.Declared {
			m.run(id, d, now)
		}
	}
}

// Scan reads the files and updates the declarations.
func (m *Model) Scan(now time.Time) {
	if m.Retained = false; m.Missing {
		m.populated, m.Confirmed = false, false
		return
	}
	if m.Dir != m.last {
		m.last, m.populated, m.Confirmed = m.Dir, false, false
	}
	used := false
	for name, c := range m.Files {
		used = used || !c.Empty || m.Known[name]
	}
	if m.Retained = !used && len(m.Known) > 0 && !m.populated && !m.Confirmed; m.Retained {
		return
	}
	if len(m.Files) > 0 {
		m.populated, m.Confirmed = true, false
	}
	m.Faulty = map[string]bool{}
	claims := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		m.Faulty[name] = m.Files[name].Broken
		for id, v := range m.Files[name].Says {
			claims[id] = append(claims[id], name)
			m.Faulty[name] = m.Faulty[name] || v.Flaw == FlawInvalid
		}
	}
	for id, names := range claims {
		m.claimed(id, names, now)
	}
	for id, d := range m.Declared {
		if claims[id] == nil && d.Owner != "" {
			m.unclaimed(d, now)
		}
	}
	m.Known = map[string]bool{}
	for name := range m.Files {
		m.Known[name] = true
	}
}

// claimed selects the owner of a pipeline among the files that declare it.
func (m *Model) claimed(id string, names []string, now time.Time) {
	d := m.Declared[id]
	switch {
	case d != nil && (d.Purge || d.Owner == ""),
		d != nil && d.Withdrawn.IsZero() && m.broken(d.Owner) && !slices.Contains(names, d.Owner):
		m.refuse(id, names, "")
	case d != nil && slices.Contains(names, d.Owner):
		m.refuse(id, names, d.Owner)
		m.grant(id, d.Owner)
	case len(names) > 1:
		m.refuse(id, names, "")
	default:
		m.grant(id, names[0])
	}
}

func (m *Model) refuse(id string, names []string, but string) {
	for _, name := range names {
		m.Faulty[name] = m.Faulty[name] || name != but && m.Files[name].Says[id].Flaw != FlawInvalid
	}
}

func (m *Model) grant(id, name string) {
	v, d := m.Files[name].Says[id], m.Declared[id]
	switch {
	case v.Flaw != FlawInvalid:
		m.Declare(id, v, name)
	case d != nil && d.Owner == name:
		d.Withdrawn = time.Time{} // the file is back, but the declaration in it is unknown
	}
}

// Declare makes v the declared version of a pipeline, and increments the generation if v differs from the version
// before.
func (m *Model) Declare(id string, v ModelVersion, owner string) {
	d := m.Declared[id]
	if d == nil {
		d = &ModelIntent{Generation: m.deleted[id]}
		m.Declared[id] = d
	}
	if d.Generation == m.deleted[id] || d.ModelVersion != v {
		d.Generation++
		d.Override = ""
	}
	d.ModelVersion, d.Owner, d.Withdrawn = v, owner, time.Time{}
}

// unclaimed updates a pipeline that no file declares.
func (m *Model) unclaimed(d *ModelIntent, now time.Time) {
	broken := m.broken(d.Owner)
	switch {
	case d.Purge:
	case !broken && d.Withdrawn.IsZero():
		d.Withdrawn = now
	case broken && !m.Known[d.Owner]:
		d.Withdrawn = time.Time{} // the file is back, but the declaration in it is unknown
	}
}

func (m *Model) broken(name string) bool {
	c := m.Files[name]
	return c != nil && c.Broken
}

// run starts, stops or deletes a pipeline as declared.
func (m *Model) run(id string, d *ModelIntent, now time.Time) {
	over := func(after time.Duration) bool { return !d.Withdrawn.IsZero() && !now.Before(d.Withdrawn.Add(after)) }
	switch {
	case d.Purge, over(Grace + Cleanup):
		m.deleted[id] = d.Generation
		delete(m.Declared, id)
	case over(Grace), d.Withdrawn.IsZero() && !d.Wants():
		d.Running, d.GaveUp = ModelRan{}, 0
	case !d.Withdrawn.IsZero():
		d.Confirm(now)
	case d.GaveUp == d.Generation:
		d.Running = ModelRan{}
	default:
		if r := d.fit(); r != d.Running {
			d.Running, d.Since = r, now
		}
		d.Confirm(now)
	}
}

// Confirm makes the running version the last known good one if there is none, if it is the same version, or if it has
// run for long enough.
func (d *ModelIntent) Confirm(now time.Time) {
	if d.Running.Generation != 0 &&
		(d.Good.Generation == 0 || d.Good.ModelVersion == d.Running.ModelVersion || now.Sub(d.Since) >= Confirm) {
		d.Good = d.Running
	}
}

// fit returns the version that can run: the declared one if it has no flaw, the running one if the agent rejects the
// declared one without stopping it, and the last known good one otherwise.
func (d *ModelIntent) fit() ModelRan {
	switch {
	case d.Flaw == "":
		return ModelRan{d.ModelVersion.Runs(), d.Generation}
	case d.Flaw != FlawOpen && d.Running.Generation != 0:
		return d.Running
	}
	return d.Good
}

// String describes the whole state that Converge may change.
func (m *Model) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(m.Declared)) {
		fmt.Fprintf(&b, "%s: %s\n", id, m.Declared[id])
	}
	fmt.Fprint(&b, m.Known, m.Retained, m.Faulty, m.last, m.populated, m.Confirmed)
	return b.String()
}
