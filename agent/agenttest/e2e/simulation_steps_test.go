package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

// step performs one random event and checks its effect.
func (s *simulation) step() {
	if s.avoidDeadlines(); s.wrong() {
		return
	}
	before, opens := map[string]agenttest.ModelIntent{}, map[string]int{}
	for id, d := range s.Model.Declared {
		before[id] = *d
	}
	for id, l := range s.lives {
		opens[id] = l.opens
	}
	s.disturbed, s.scanned = map[string]bool{}, false
	for _, id := range []string{"p", "q", "r"} {
		s.release(id, 1+s.IntN(3))
	}
	s.happen()
	s.check()
	for id, d := range s.Model.Declared {
		b, known := before[id]
		same := known && b.Generation == d.Generation && b.Running == d.Running && b.Wants() == d.Wants() &&
			d.Running.Generation != 0
		if n := s.life(id).opens - opens[id]; same && !s.disturbed[id] && n != 0 {
			s.differs("%s was restarted for nothing, %d times", id, n)
		}
	}
}

func (s *simulation) happen() {
	switch n := s.IntN(28); {
	case n >= 24:
		s.changeRapidly()
	case n < 9:
		s.changes(true)
	case n < 11:
		s.down()
	case n < 14:
		s.killed()
	case n < 16:
		s.failConnector()
	case n < 19:
		s.request()
	case n < 21:
		s.time()
	case n < 23 && !s.links:
		s.directory()
	default:
		s.prune()
	}
}

// avoidDeadlines lets time pass until no deadline can fall into the next event.
func (s *simulation) avoidDeadlines() {
	for d := s.nearDeadline(); d > 0; d = s.nearDeadline() {
		s.say("%v pass, to a deadline", d)
		s.pass(d)
		s.Model.Converge(time.Now())
		if s.nearDeadline() == 0 {
			s.check()
		}
	}
}

// nearDeadline returns the time until a near deadline has certainly passed, 0 if no deadline is near.
func (s *simulation) nearDeadline() (d time.Duration) {
	for _, i := range s.Model.Declared {
		for _, after := range []time.Duration{agenttest.Grace, agenttest.Grace + agenttest.Cleanup} {
			until := time.Until(i.Withdrawn.Add(after)) + time.Second
			if !i.Withdrawn.IsZero() && until > 0 && until < 2*simulatedPoll+4*simulatedSettling {
				d = max(d, until)
			}
		}
	}
	return d
}

func pick[T any](s *simulation, choices ...T) T { return choices[s.IntN(len(choices))] }

func (s *simulation) anyFile() string { return pick(s, "a.yaml", "b.yaml", "c.yml") }

func (s *simulation) anyID() string { return pick(s, "p", "q", "r") }

// next returns a version other than v.
func (s *simulation) next(v agenttest.ModelVersion) agenttest.ModelVersion {
	if v.In > 0 && s.IntN(5) == 0 {
		v.Stopped = !v.Stopped
		return v
	}
	s.version++
	switch s.IntN(3) {
	case 0:
		v.In = s.version
	case 1:
		v.Out = s.version
	default:
		v.In, v.Out = s.version, s.version
	}
	v.In, v.Out = max(v.In, 1), max(v.Out, 1)
	v.Flaw = pick(s, "", "", "", "", "", "", "", agenttest.FlawPlugin, agenttest.FlawSettings, agenttest.FlawOpen)
	v.Stopped = s.IntN(12) == 0
	return v
}

// randomContent makes content in which each pipeline is absent, as declared, or in a new version.
func (s *simulation) randomContent() *agenttest.ModelContent {
	c := &agenttest.ModelContent{Says: map[string]agenttest.ModelVersion{}}
	for _, id := range []string{"p", "q", "r"} {
		var v agenttest.ModelVersion
		if d := s.Model.Declared[id]; d != nil {
			v = d.ModelVersion
		}
		switch s.IntN(6) {
		case 0, 1:
			c.Says[id] = s.next(v)
		case 2, 3:
			if v.In > 0 {
				c.Says[id] = v
			}
		}
		if v, ok := c.Says[id]; ok && s.IntN(12) == 0 {
			v.Flaw, v.Stopped = agenttest.FlawInvalid, false
			c.Says[id] = v
		}
	}
	c.Broken = s.IntN(10) == 0
	return c
}

// changes changes files, sometimes without a scan in between.
func (s *simulation) changes(scans bool) {
	if s.Missing {
		s.appear()
	}
	for range 1 + s.IntN(3) {
		if s.change(scans); scans && s.IntN(2) == 0 {
			s.scan()
		}
	}
	if scans {
		s.scan()
	}
}

// changeRapidly changes a pipeline several times, each time within the probation of the running version.
func (s *simulation) changeRapidly() {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(s.Model.Declared)) {
		d := s.Model.Declared[id]
		if c := s.Files[d.Owner]; c != nil && !c.Broken && d.Withdrawn.IsZero() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || s.Missing || s.links {
		return
	}
	id := pick(s, ids...)
	d := s.Model.Declared[id]
	s.scanned = true
	for range 2 + s.IntN(3) {
		c := *s.Files[d.Owner]
		c.Says = maps.Clone(c.Says)
		v := s.next(d.ModelVersion)
		if v.Stopped = false; s.IntN(3) == 0 {
			v.Flaw = pick(s, agenttest.FlawPlugin, agenttest.FlawSettings, agenttest.FlawOpen)
		}
		c.Says[id] = v
		s.say("change rapidly %s %v", d.Owner, &c)
		s.save("save", d.Owner, &c, true)
		if s.scan(); s.IntN(4) == 0 {
			s.say("restarted")
			s.allDisturbed()
			s.stop()
			s.start()
			s.scan()
		}
	}
}

// change makes one change of a file.
func (s *simulation) change(scans bool) {
	name := s.anyFile()
	present := slices.Sorted(maps.Keys(s.Files))
	what := pick(s, "save", "save", "save", "write", "halves", "empties", "break", "delete", "rename", "touch",
		"obstruct")
	if what == "delete" || what == "rename" || what == "touch" {
		if len(present) == 0 {
			return
		}
		name = pick(s, present...)
	}
	if s.links {
		s.swap(what, name)
		return
	}
	if scans && (what == "empties" || what == "break") {
		s.scan() // an emptied file still counts with its old content for a moment
	}
	if fi, err := os.Lstat(s.path(name)); err == nil && fi.IsDir() && what != "rename" && what != "touch" {
		s.must(os.Remove(s.path(name)))
	}
	switch what {
	case "save", "write", "halves", "empties":
		c := s.randomContent()
		s.say("%s %s %v", what, name, c)
		s.save(what, name, c, scans)
	case "break":
		text := pick(s, brokenText, "", "- what?\n")
		s.say("break %s %q", name, text)
		s.write(name, text)
		if s.Files[name] = (&agenttest.ModelContent{Broken: true, Empty: text == ""}); scans {
			s.scan()
		}
	case "delete":
		s.say("delete %s", name)
		if err := os.Remove(s.path(name)); !os.IsNotExist(err) {
			s.must(err)
		}
		delete(s.Files, name)
	case "rename":
		s.rename(name)
	case "touch":
		s.say("touch %s", name)
		s.must(os.Chtimes(s.path(name), time.Time{}, time.Unix(int64(s.IntN(1e9)), 0)))
	case "obstruct":
		s.obstruct(name)
	}
}

// rename renames a file to the name of another one, or to a free name.
func (s *simulation) rename(name string) {
	to := s.anyFile()
	if fi, err := os.Lstat(s.path(to)); err == nil && fi.IsDir() || to == name {
		return
	}
	if fi, _ := os.Lstat(s.path(name)); fi.IsDir() && s.Files[to] != nil {
		return // impossible
	}
	s.say("rename %s %s", name, to)
	s.must(os.Rename(s.path(name), s.path(to)))
	s.Files[to] = s.Files[name]
	delete(s.Files, name)
}

// obstruct puts a directory in the place of a file.
func (s *simulation) obstruct(name string) {
	s.say("a directory is in the place of %s", name)
	if err := os.Remove(s.path(name)); !os.IsNotExist(err) {
		s.must(err)
	}
	s.must(os.Mkdir(s.path(name), 0o700))
	s.Files[name] = &agenttest.ModelContent{Broken: true}
}

// save writes a file, in one of the ways in which files are saved.
func (s *simulation) save(how, name string, c *agenttest.ModelContent, scans bool) {
	text := textOf(c)
	switch how {
	case "save":
		s.write(name+".tmp", text)
		s.must(os.Rename(s.path(name+".tmp"), s.path(name)))
	case "halves", "empties":
		part := ""
		if how == "halves" {
			part = brokenText
		}
		s.write(name, part)
		if s.Files[name] = (&agenttest.ModelContent{Broken: true, Empty: part == ""}); scans {
			s.scan()
		}
		s.write(name, text)
	default:
		s.write(name, text)
	}
	s.Files[name] = c
}

func (s *simulation) write(name, text string) {
	s.must(os.WriteFile(s.path(name), []byte(text), 0o600))
}

// swap changes files as Kubernetes does: all files are links through one link, which is switched.
func (s *simulation) swap(what, name string) {
	switch what {
	case "delete":
		delete(s.Files, name)
	case "rename":
		if to := s.anyFile(); to != name {
			s.Files[to] = s.Files[name]
			delete(s.Files, name)
		}
	case "break":
		s.Files[name] = &agenttest.ModelContent{Broken: true}
	default:
		s.Files[name] = s.randomContent()
	}
	s.say("swap: %s %s %v", what, name, s.Files[name])
	s.version++
	data := fmt.Sprintf("..%d", s.version)
	s.must(os.Mkdir(s.path(data), 0o700))
	for name, c := range s.Files {
		s.write(filepath.Join(data, name), textOf(c))
		if err := os.Symlink("..data/"+name, s.path(name)); !os.IsExist(err) {
			s.must(err)
		}
	}
	s.must(os.Symlink(data, s.path("..next")))
	s.must(os.Rename(s.path("..next"), s.path("..data")))
	entries, err := os.ReadDir(s.path(""))
	s.must(err)
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); (ext == ".yaml" || ext == ".yml") && s.Files[e.Name()] == nil {
			s.must(os.Remove(s.path(e.Name())))
		}
	}
}

// down changes files while no agent runs.
func (s *simulation) down() {
	s.say("down:")
	s.allDisturbed()
	s.stop()
	if s.IntN(3) > 0 {
		s.changes(false)
	}
	s.start()
	s.scan()
}

func (s *simulation) allDisturbed() { s.disturbed = map[string]bool{"p": true, "q": true, "r": true} }

// killed kills the process during an event.
func (s *simulation) killed() {
	s.allDisturbed()
	m := s.now
	fuse := s.IntN(30)
	m.with(func() { m.fuse = fuse })
	s.say("killed after %d effects:", fuse)
	what := s.IntN(4)
	switch {
	case what == 0:
		s.say("stop")
		s.end()
		s.pass(time.Duration(s.IntN(300)) * time.Millisecond)
	case what == 1 || s.Missing || len(s.Files) < 2:
		s.pass(time.Duration(s.IntN(300)) * time.Millisecond)
	default:
		s.change(false)
		if s.IntN(2) == 0 {
			_ = s.agent.Files.Reload(s.Context(), false)
		}
		s.pass(time.Duration(s.IntN(4000)) * time.Millisecond)
	}
	m.kill()
	s.stop()
	s.start()
	s.scan()
}

// failConnector makes a connector fail or refuse a record.
func (s *simulation) failConnector() {
	id := s.anyID()
	d := s.Model.Declared[id]
	if d == nil || d.Running.Generation == 0 {
		return
	}
	s.pass(time.Second) // released records have passed
	s.disturbed[id] = true
	refuse := s.IntN(2) == 0
	s.say("failure of %s, refused %v", id, refuse)
	s.with(func() { s.life(id).refuse, s.life(id).fail = refuse, !refuse })
	s.release(id, 1+s.IntN(3))
	s.pass(time.Second)
	if refuse {
		d.GaveUp = d.Generation
		d.Running = agenttest.ModelRan{}
	}
	if !d.Withdrawn.IsZero() {
		d.Running = agenttest.ModelRan{} // it is not restarted
	}
	s.Model.Converge(time.Now())
}

// request makes a random request over the API.
func (s *simulation) request() {
	id := s.anyID()
	d := s.Model.Declared[id]
	db, ctx := s.agent.Store, s.Context()
	declare := func(v agenttest.ModelVersion, owner spec.Owner) {
		p := spec.ParseFile("",
			[]byte(textOf(&agenttest.ModelContent{
				Says: map[string]agenttest.ModelVersion{id: v}}))).Pipelines[0].Pipeline
		s.must(db.Apply(ctx, &spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: owner, Origin: "api"}}}))
	}
	api := spec.Owner{Kind: spec.OwnerAPI}
	switch {
	case d == nil:
		v := s.next(agenttest.ModelVersion{})
		s.say("create %s %s", id, v)
		declare(v, api)
		s.Model.Declare(id, v, "")
	case !d.Withdrawn.IsZero():
		return
	case s.IntN(4) == 0 && d.Wants():
		s.say("restart %s", id)
		s.disturbed[id], d.GaveUp = true, 0
		s.must(s.agent.Loop.Restart(ctx, id))
	case d.Owner == "":
		s.requestOwned(id, d, declare)
	case s.IntN(4) == 0:
		s.say("disown %s", id)
		v := d.ModelVersion
		v.Stopped = !d.Wants()
		declare(v, api)
		s.Model.Declare(id, v, "")
	default:
		status := pick(s, spec.StatusRunning, spec.StatusStopped)
		s.say("%s %s", status, id)
		s.must(db.SetOverride(ctx, id, status))
		if d.Override = status; (status == spec.StatusStopped) == d.Stopped {
			d.Override = ""
		}
	}
	s.pass(200 * time.Millisecond)
	s.Model.Converge(time.Now())
}

// requestOwned makes a request for a pipeline that the API owns.
func (s *simulation) requestOwned(
	id string, d *agenttest.ModelIntent, declare func(agenttest.ModelVersion, spec.Owner),
) {
	var owners []string
	for _, name := range slices.Sorted(maps.Keys(s.Known)) {
		if c := s.Files[name]; c != nil && !s.Missing {
			if v, ok := c.Says[id]; ok && v.Flaw != agenttest.FlawInvalid {
				owners = append(owners, name)
			}
		}
	}
	switch {
	case len(owners) > 0 && s.IntN(2) == 0:
		s.say("adopt %s %s", id, owners[0])
		declare(d.ModelVersion, spec.Owner{Kind: spec.OwnerFile, Path: owners[0]})
		d.Owner = owners[0]
	case s.IntN(3) == 0:
		s.say("remove %s", id)
		s.must(s.agent.Store.Apply(s.Context(),
			&spec.Changes{Withdraw: []spec.Withdraw{{ID: id, Origin: "api", Purge: true}}}))
		d.Purge, d.Withdrawn, s.disturbed[id] = true, time.Now(), true
	default:
		v := s.next(d.ModelVersion)
		s.say("update %s %s", id, v)
		declare(v, spec.Owner{Kind: spec.OwnerAPI})
		s.Model.Declare(id, v, "")
	}
}

// time lets time pass.
func (s *simulation) time() {
	d := pick(s, time.Second, agenttest.Grace/3, agenttest.Grace+10*time.Second,
		agenttest.Grace+agenttest.Cleanup+10*time.Second)
	s.say("%v pass", d)
	s.pass(d)
	s.Model.Converge(time.Now())
	s.avoidDeadlines()
}

// directory makes a fault of the directory of the files.
func (s *simulation) directory() {
	if s.Missing {
		s.appear()
		s.scan()
		return
	}
	switch what := pick(s, "remove", "replace", "empty"); what {
	case "remove":
		s.say("the directory goes away")
		s.must(os.Rename(s.path(""), s.path("")+".away"))
		s.Missing = true
	case "replace":
		kept := s.keepSome()
		s.say("another directory takes its place, with %v", slices.Sorted(maps.Keys(kept)))
		s.must(os.Rename(s.path(""), fmt.Sprintf("%s.%d", s.path(""), s.Model.Dir)))
		s.another(kept)
	case "empty":
		s.say("the directory is emptied")
		s.empty(s.path(""))
		s.Files = map[string]*agenttest.ModelContent{}
	}
	s.scan()
}

// appear restores the missing directory.
func (s *simulation) appear() {
	s.Missing = false
	switch away := s.path("") + ".away"; s.IntN(3) {
	case 0:
		s.say("the directory is back")
		s.must(os.Rename(away, s.path("")))
	case 1:
		s.say("the directory is back, empty")
		s.empty(away)
		s.must(os.Rename(away, s.path("")))
		s.Files = map[string]*agenttest.ModelContent{}
	case 2:
		kept := s.keepSome()
		s.say("there is another directory, with %v", slices.Sorted(maps.Keys(kept)))
		s.must(os.Rename(away, fmt.Sprintf("%s.%d", s.path(""), s.Model.Dir)))
		s.another(kept)
	}
}

func (s *simulation) empty(dir string) {
	entries, err := os.ReadDir(dir)
	s.must(err)
	for _, e := range entries {
		s.must(os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

// another makes a directory with these files.
func (s *simulation) another(files map[string]*agenttest.ModelContent) {
	s.must(os.Mkdir(s.path(""), 0o700))
	for name, c := range files {
		s.write(name, textOf(c))
	}
	s.Model.Dir++
	s.Files = files
}

// keepSome returns some of the files, or all, or none.
func (s *simulation) keepSome() map[string]*agenttest.ModelContent {
	kept, chance := map[string]*agenttest.ModelContent{}, s.IntN(3)
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if s.IntN(2) < chance {
			kept[name] = s.Files[name]
		}
	}
	return kept
}

// prune confirms the deletion of files.
func (s *simulation) prune() {
	s.say("reload --prune")
	err := s.agent.Files.Reload(s.Context(), true)
	if (err != nil) != s.Missing {
		s.differs("reload --prune: %v", err)
	}
	s.pass(200 * time.Millisecond)
	s.Model.Scan(time.Now())
	s.Confirmed = !s.Missing
	s.Model.Converge(time.Now())
}
