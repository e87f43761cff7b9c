package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// step has something happen, and checks what came of it.
func (s *simulation) step() {
	if s.avoidDeadlines(); s.wrong() {
		return
	}
	before, opens := map[string]intent{}, map[string]int{}
	for id, d := range s.model.declared {
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
	for id, d := range s.model.declared {
		b, known := before[id]
		same := known && b.generation == d.generation && b.running == d.running && b.wants() == d.wants() && d.running.generation != 0
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

// avoidDeadlines lets deadlines pass that would come while something else happens.
func (s *simulation) avoidDeadlines() {
	for d := s.nearDeadline(); d > 0; d = s.nearDeadline() {
		s.say("%v pass, to a deadline", d)
		s.pass(d)
		s.model.converge(time.Now())
		if s.nearDeadline() == 0 {
			s.check()
		}
	}
}

// nearDeadline returns how long it takes until a deadline near has passed for sure, 0
// when there is none.
func (s *simulation) nearDeadline() (d time.Duration) {
	for _, i := range s.model.declared {
		for _, after := range []time.Duration{simulatedGrace, simulatedGrace + simulatedCleanup} {
			until := time.Until(i.withdrawn.Add(after)) + time.Second
			if !i.withdrawn.IsZero() && until > 0 && until < 2*simulatedPoll+4*simulatedSettling {
				d = max(d, until)
			}
		}
	}
	return d
}

func pick[T any](s *simulation, of ...T) T { return of[s.IntN(len(of))] }

func (s *simulation) anyFile() string { return pick(s, "a.yaml", "b.yaml", "c.yml") }
func (s *simulation) anyID() string   { return pick(s, "p", "q", "r") }

// next makes another version than v.
func (s *simulation) next(v version) version {
	if v.in > 0 && s.IntN(5) == 0 {
		v.stopped = !v.stopped
		return v
	}
	s.version++
	switch s.IntN(3) {
	case 0:
		v.in = s.version
	case 1:
		v.out = s.version
	default:
		v.in, v.out = s.version, s.version
	}
	v.in, v.out = max(v.in, 1), max(v.out, 1)
	v.flaw = pick(s, "", "", "", "", "", "", "", flawPlugin, flawSettings, flawOpen)
	v.stopped = s.IntN(12) == 0
	return v
}

// randomContent makes content: each pipeline absent, as declared, or in a new version.
func (s *simulation) randomContent() *content {
	c := &content{says: map[string]version{}}
	for _, id := range []string{"p", "q", "r"} {
		var v version
		if d := s.model.declared[id]; d != nil {
			v = d.version
		}
		switch s.IntN(6) {
		case 0, 1:
			c.says[id] = s.next(v)
		case 2, 3:
			if v.in > 0 {
				c.says[id] = v
			}
		}
		if v, ok := c.says[id]; ok && s.IntN(12) == 0 {
			v.flaw, v.stopped = flawInvalid, false
			c.says[id] = v
		}
	}
	c.broken = s.IntN(10) == 0
	return c
}

// changes changes files, some of them without a scan in between.
func (s *simulation) changes(scans bool) {
	if s.missing {
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

// changeRapidly changes a pipeline several times, each time within the probation of what runs.
func (s *simulation) changeRapidly() {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(s.model.declared)) {
		d := s.model.declared[id]
		if c := s.files[d.owner]; c != nil && !c.broken && d.withdrawn.IsZero() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || s.missing || s.links {
		return
	}
	id := pick(s, ids...)
	d := s.model.declared[id]
	s.scanned = true
	for range 2 + s.IntN(3) {
		c := *s.files[d.owner]
		c.says = maps.Clone(c.says)
		v := s.next(d.version)
		if v.stopped = false; s.IntN(3) == 0 {
			v.flaw = pick(s, flawPlugin, flawSettings, flawOpen)
		}
		c.says[id] = v
		s.say("change rapidly %s %v", d.owner, &c)
		s.save("save", d.owner, &c, true)
		if s.scan(); s.IntN(4) == 0 {
			s.say("restarted")
			s.allDisturbed()
			s.stop()
			s.start()
			s.scan()
		}
	}
}

// change does one thing to a file.
func (s *simulation) change(scans bool) {
	name := s.anyFile()
	present := slices.Sorted(maps.Keys(s.files))
	what := pick(s, "save", "save", "save", "write", "halves", "empties", "break", "delete", "rename", "touch", "obstruct")
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
		s.scan() // what is emptied counts for a moment as what it was
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
		if s.files[name] = (&content{broken: true, empty: text == ""}); scans {
			s.scan()
		}
	case "delete":
		s.say("delete %s", name)
		if err := os.Remove(s.path(name)); !os.IsNotExist(err) {
			s.must(err)
		}
		delete(s.files, name)
	case "rename":
		s.rename(name)
	case "touch":
		s.say("touch %s", name)
		s.must(os.Chtimes(s.path(name), time.Time{}, time.Unix(int64(s.IntN(1e9)), 0)))
	case "obstruct":
		s.obstruct(name)
	}
}

// rename gives a file the name of another one, or a free name.
func (s *simulation) rename(name string) {
	to := s.anyFile()
	if fi, err := os.Lstat(s.path(to)); err == nil && fi.IsDir() || to == name {
		return
	}
	if fi, _ := os.Lstat(s.path(name)); fi.IsDir() && s.files[to] != nil {
		return // impossible
	}
	s.say("rename %s %s", name, to)
	s.must(os.Rename(s.path(name), s.path(to)))
	s.files[to] = s.files[name]
	delete(s.files, name)
}

// obstruct puts a directory in the place of a file.
func (s *simulation) obstruct(name string) {
	s.say("a directory is in the place of %s", name)
	if err := os.Remove(s.path(name)); !os.IsNotExist(err) {
		s.must(err)
	}
	s.must(os.Mkdir(s.path(name), 0o700))
	s.files[name] = &content{broken: true}
}

// save writes a file, in one of the ways in which files are saved.
func (s *simulation) save(how, name string, c *content, scans bool) {
	text := c.text()
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
		if s.files[name] = (&content{broken: true, empty: part == ""}); scans {
			s.scan()
		}
		s.write(name, text)
	default:
		s.write(name, text)
	}
	s.files[name] = c
}

func (s *simulation) write(name, text string) {
	s.must(os.WriteFile(s.path(name), []byte(text), 0o600))
}

// swap changes files as Kubernetes does: all are links by way of one link that moves.
func (s *simulation) swap(what, name string) {
	switch what {
	case "delete":
		delete(s.files, name)
	case "rename":
		if to := s.anyFile(); to != name {
			s.files[to] = s.files[name]
			delete(s.files, name)
		}
	case "break":
		s.files[name] = &content{broken: true}
	default:
		s.files[name] = s.randomContent()
	}
	s.say("swap: %s %s %v", what, name, s.files[name])
	s.version++
	data := fmt.Sprintf("..%d", s.version)
	s.must(os.Mkdir(s.path(data), 0o700))
	for name, c := range s.files {
		s.write(filepath.Join(data, name), c.text())
		if err := os.Symlink("..data/"+name, s.path(name)); !os.IsExist(err) {
			s.must(err)
		}
	}
	s.must(os.Symlink(data, s.path("..next")))
	s.must(os.Rename(s.path("..next"), s.path("..data")))
	entries, err := os.ReadDir(s.path(""))
	s.must(err)
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); (ext == ".yaml" || ext == ".yml") && s.files[e.Name()] == nil {
			s.must(os.Remove(s.path(e.Name())))
		}
	}
}

// down has files change while no agent runs.
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

// killed has the process killed while something happens.
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
	case what == 1 || s.missing || len(s.files) < 2:
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

// failConnector has a connector fail or refuse a record.
func (s *simulation) failConnector() {
	id := s.anyID()
	d := s.model.declared[id]
	if d == nil || d.running.generation == 0 {
		return
	}
	s.pass(time.Second) // what was released is through
	s.disturbed[id] = true
	refuse := s.IntN(2) == 0
	s.say("failure of %s, refused %v", id, refuse)
	s.with(func() { s.life(id).refuse, s.life(id).fail = refuse, !refuse })
	s.release(id, 1+s.IntN(3))
	s.pass(time.Second)
	if refuse {
		d.gaveUp = d.generation
		d.running = ran{}
	}
	if !d.withdrawn.IsZero() {
		d.running = ran{} // it is not started again
	}
	s.model.converge(time.Now())
}

// request has something come over the API.
func (s *simulation) request() {
	id := s.anyID()
	d := s.model.declared[id]
	db, ctx := s.agent.Store, s.Context()
	declare := func(v version, owner spec.Owner) {
		p := spec.ParseFile("", []byte((&content{says: map[string]version{id: v}}).text())).Pipelines[0].Pipeline
		s.must(db.Apply(ctx, &spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: owner, Origin: "api"}}}))
	}
	api := spec.Owner{Kind: spec.OwnerAPI}
	switch {
	case d == nil:
		v := s.next(version{})
		s.say("create %s %s", id, v)
		declare(v, api)
		s.model.declare(id, v, "")
	case !d.withdrawn.IsZero():
		return
	case s.IntN(4) == 0 && d.wants():
		s.say("restart %s", id)
		s.disturbed[id], d.gaveUp = true, 0
		s.must(s.agent.Loop.Restart(ctx, id))
	case d.owner == "":
		s.requestOwned(id, d, declare)
	case s.IntN(4) == 0:
		s.say("disown %s", id)
		v := d.version
		v.stopped = !d.wants()
		declare(v, api)
		s.model.declare(id, v, "")
	default:
		status := pick(s, spec.StatusRunning, spec.StatusStopped)
		s.say("%s %s", status, id)
		s.must(db.SetOverride(ctx, id, status))
		if d.override = status; (status == spec.StatusStopped) == d.stopped {
			d.override = ""
		}
	}
	s.pass(200 * time.Millisecond)
	s.model.converge(time.Now())
}

// requestOwned is about a pipeline that the API owns.
func (s *simulation) requestOwned(id string, d *intent, declare func(version, spec.Owner)) {
	var owners []string
	for _, name := range slices.Sorted(maps.Keys(s.known)) {
		if c := s.files[name]; c != nil && !s.missing {
			if v, ok := c.says[id]; ok && v.flaw != flawInvalid {
				owners = append(owners, name)
			}
		}
	}
	switch {
	case len(owners) > 0 && s.IntN(2) == 0:
		s.say("adopt %s %s", id, owners[0])
		declare(d.version, spec.Owner{Kind: spec.OwnerFile, Path: owners[0]})
		d.owner = owners[0]
	case s.IntN(3) == 0:
		s.say("remove %s", id)
		s.must(s.agent.Store.Apply(s.Context(), &spec.Changes{Withdraw: []spec.Withdraw{{ID: id, Origin: "api", Purge: true}}}))
		d.purge, d.withdrawn, s.disturbed[id] = true, time.Now(), true
	default:
		v := s.next(d.version)
		s.say("update %s %s", id, v)
		declare(v, spec.Owner{Kind: spec.OwnerAPI})
		s.model.declare(id, v, "")
	}
}

// time lets time pass.
func (s *simulation) time() {
	d := pick(s, time.Second, simulatedGrace/3, simulatedGrace+10*time.Second, simulatedGrace+simulatedCleanup+10*time.Second)
	s.say("%v pass", d)
	s.pass(d)
	s.model.converge(time.Now())
	s.avoidDeadlines()
}

// directory has something happen to the directory of the files.
func (s *simulation) directory() {
	if s.missing {
		s.appear()
		s.scan()
		return
	}
	switch what := pick(s, "remove", "replace", "empty"); what {
	case "remove":
		s.say("the directory goes away")
		s.must(os.Rename(s.path(""), s.path("")+".away"))
		s.missing = true
	case "replace":
		kept := s.keepSome()
		s.say("another directory takes its place, with %v", slices.Sorted(maps.Keys(kept)))
		s.must(os.Rename(s.path(""), fmt.Sprintf("%s.%d", s.path(""), s.model.dir)))
		s.another(kept)
	case "empty":
		s.say("the directory is emptied")
		s.empty(s.path(""))
		s.files = map[string]*content{}
	}
	s.scan()
}

// appear ends the absence of the directory.
func (s *simulation) appear() {
	s.missing = false
	switch away := s.path("") + ".away"; s.IntN(3) {
	case 0:
		s.say("the directory is back")
		s.must(os.Rename(away, s.path("")))
	case 1:
		s.say("the directory is back, empty")
		s.empty(away)
		s.must(os.Rename(away, s.path("")))
		s.files = map[string]*content{}
	case 2:
		kept := s.keepSome()
		s.say("there is another directory, with %v", slices.Sorted(maps.Keys(kept)))
		s.must(os.Rename(away, fmt.Sprintf("%s.%d", s.path(""), s.model.dir)))
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
func (s *simulation) another(files map[string]*content) {
	s.must(os.Mkdir(s.path(""), 0o700))
	for name, c := range files {
		s.write(name, c.text())
	}
	s.model.dir++
	s.files = files
}

// keepSome returns some of the files, or all, or none.
func (s *simulation) keepSome() map[string]*content {
	kept, chance := map[string]*content{}, s.IntN(3)
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if s.IntN(2) < chance {
			kept[name] = s.files[name]
		}
	}
	return kept
}

// prune confirms that files are gone.
func (s *simulation) prune() {
	s.say("reload --prune")
	err := s.agent.Files.Reload(s.Context(), true)
	if (err != nil) != s.missing {
		s.differs("reload --prune: %v", err)
	}
	s.pass(200 * time.Millisecond)
	s.model.scan(time.Now())
	s.confirmed = !s.missing
	s.model.converge(time.Now())
}
