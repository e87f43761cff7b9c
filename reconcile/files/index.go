package files

import (
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// index holds the input of Decide and knows the parts that changed since the last decision was applied. A decision
// about a pipeline depends on the files that declare it and on the file that owns it. It depends in turn on all other
// pipelines that these files declare and own. The rest stays unchanged.
type index struct {
	files     map[string]*indexed          // by path
	declared  map[string]*spec.Declaration // by id
	known     map[string]*spec.FileState   // by path
	claims    map[string][]string          // paths of the files that declare a pipeline, by id
	owned     map[string]map[string]bool   // ids of the pipelines of a file, by path
	withdrawn map[string]bool              // ids
	clashes   map[string]bool              // paths of files rejected for connectors with taken full ids

	scan  int             // number of the last scan
	all   bool            // anything may have changed
	paths map[string]bool // files that changed
	ids   map[string]bool // pipelines that changed, or are declared by other files
}

// indexed is a file in a scan.
type indexed struct {
	Scanned
	scan int
}

func newIndex() *index { return &index{files: map[string]*indexed{}, claims: map[string][]string{}} }

// reset replaces the content of the index by all declarations and all known file states.
func (x *index) reset(declared []*spec.Declaration, known []spec.FileState) {
	x.declared, x.owned, x.withdrawn = make(map[string]*spec.Declaration, len(declared)), map[string]map[string]bool{},
		map[string]bool{}
	x.known, x.clashes = make(map[string]*spec.FileState, len(known)), map[string]bool{}
	x.paths, x.ids = map[string]bool{}, map[string]bool{}
	for _, d := range declared {
		x.declare(d)
	}
	for i := range known {
		x.note(&known[i])
	}
	x.all = true
}

// declare adds a new or replaced declaration.
func (x *index) declare(d *spec.Declaration) {
	id := d.Pipeline.ID
	x.undeclare(id)
	x.declared[id] = d
	if d.Owner.Kind == spec.OwnerFile {
		if x.owned[d.Owner.Path] == nil {
			x.owned[d.Owner.Path] = map[string]bool{}
		}
		x.owned[d.Owner.Path][id] = true
	}
	if !d.Withdrawn.IsZero() {
		x.withdrawn[id] = true
	}
}

func (x *index) undeclare(id string) {
	x.ids[id] = true
	d := x.declared[id]
	if d == nil {
		return
	}
	delete(x.declared, id)
	delete(x.withdrawn, id)
	if d.Owner.Kind == spec.OwnerFile {
		x.paths[d.Owner.Path] = true
		if delete(x.owned[d.Owner.Path], id); len(x.owned[d.Owner.Path]) == 0 {
			delete(x.owned, d.Owner.Path)
		}
	}
}

// update applies a scan of the files. Changed files are parsed.
func (x *index) update(files []watch.File, parse func(path string, data []byte) spec.File) {
	x.scan++
	var changed []int
	for i := range files {
		file := &files[i]
		before := x.files[file.Path]
		if before != nil && before.Hash == file.Hash && sameError(before.Err, file.Err) {
			before.scan = x.scan
			continue
		}
		x.drop(before)
		x.files[file.Path] = &indexed{Scanned: Scanned{Path: file.Path, Hash: file.Hash, Err: file.Err}, scan: x.scan}
		changed = append(changed, i)
	}
	eachAtOnce(changed, func(i int) {
		if now := x.files[files[i].Path]; now.Err == nil {
			now.File = parse(now.Path, files[i].Data)
		}
	})
	for _, i := range changed {
		now := x.files[files[i].Path]
		x.paths[now.Path] = true
		for _, id := range now.ids() {
			x.claims[id] = append(x.claims[id], now.Path)
		}
	}
	if len(x.files) == len(files) {
		return
	}
	for path, f := range x.files {
		if f.scan != x.scan {
			x.drop(f)
			delete(x.files, path)
		}
	}
}

// eachAtOnce calls do for every element of all, on as many goroutines as there are CPUs.
func eachAtOnce(all []int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(all), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for n := next.Add(1); n <= int64(len(all)); n = next.Add(1) {
				do(all[n-1])
			}
		})
	}
	workers.Wait()
}

// drop removes the previous content of a file.
func (x *index) drop(f *indexed) {
	if f == nil {
		return
	}
	x.paths[f.Path] = true
	for _, id := range f.ids() {
		x.ids[id] = true
		if x.claims[id] = slices.DeleteFunc(x.claims[id], func(path string) bool {
			return path == f.Path
		}); len(x.claims[id]) == 0 {
			delete(x.claims, id)
		}
	}
}

// ids returns the pipelines that f declares, including invalid ones.
func (f *Scanned) ids() []string {
	ids := slices.Clone(f.Invalid)
	for i := range f.Pipelines {
		ids = append(ids, f.Pipelines[i].Pipeline.ID)
	}
	return ids
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

// undecided returns the input for Decide. Decide decides about it as if it had everything, and decides nothing about
// the rest.
func (x *index) undecided() (files []Scanned, declared []spec.Declaration, known []spec.FileState) {
	if x.all {
		return x.take(x.everything())
	}
	p := &part{index: x, paths: map[string]bool{}, ids: map[string]bool{}}
	for path := range x.paths {
		p.file(path)
	}
	for id := range x.ids {
		p.pipeline(id)
	}
	if len(p.paths)+len(p.ids) > 0 { // another pipeline may have given up an id or a path
		for path := range x.clashes {
			p.file(path)
		}
	}
	if p.news { // a new pipeline may be a renamed withdrawn one
		for id := range x.withdrawn {
			p.pipeline(id)
		}
	}
	return x.take(p.paths, p.ids)
}

// note records the state of a file.
func (x *index) note(f *spec.FileState) {
	x.known[f.Path] = f
	delete(x.clashes, f.Path)
	if slices.ContainsFunc(f.Problems, func(p spec.Problem) bool { return p.Code == spec.CodeSameID }) {
		x.clashes[f.Path] = true
	}
}

func (x *index) everything() (paths, ids map[string]bool) {
	paths, ids = make(map[string]bool, len(x.files)), make(map[string]bool, len(x.declared))
	for path := range x.files {
		paths[path] = true
	}
	for path := range x.known {
		paths[path] = true
	}
	for id := range x.declared {
		ids[id] = true
	}
	return paths, ids
}

// part is a part of an index without dependencies on the rest.
type part struct {
	*index
	paths, ids map[string]bool
	news       bool // the part has pipelines that were not declared before
}

// file adds a file and everything related to it.
func (p *part) file(path string) {
	if p.paths[path] {
		return
	}
	p.paths[path] = true
	if f := p.files[path]; f != nil {
		for _, id := range f.ids() {
			p.pipeline(id)
		}
	}
	for id := range p.owned[path] {
		p.pipeline(id)
	}
}

// pipeline adds a pipeline and everything related to it.
func (p *part) pipeline(id string) {
	if p.ids[id] {
		return
	}
	p.ids[id] = true
	d := p.declared[id]
	p.news = p.news || d == nil
	p.namesakes(id)
	if d != nil && d.Owner.Kind == spec.OwnerFile {
		p.file(d.Owner.Path)
	}
	for _, path := range p.claims[id] {
		p.file(path)
	}
}

// namesakes adds the pipelines whose connectors may have the same full ids as the connectors of a pipeline.
func (p *part) namesakes(id string) {
	d := decision{declared: p.declared, claims: map[string][]claim{}}
	for _, path := range p.claims[id] {
		for i, parsed := range p.files[path].Pipelines {
			if parsed.Pipeline.ID == id {
				d.claims[id] = append(d.claims[id], claim{path, &p.files[path].Pipelines[i]})
			}
		}
	}
	for _, version := range d.others(id) {
		_ = version.Clash(func(other string) []*spec.Pipeline {
			p.pipeline(other)
			return nil
		})
	}
}

// take returns the existing entries for paths and ids, each list in order.
func (x *index) take(
	paths, ids map[string]bool,
) (files []Scanned, declared []spec.Declaration, known []spec.FileState) {
	for path := range paths {
		if f := x.files[path]; f != nil {
			files = append(files, f.Scanned)
		}
		if k := x.known[path]; k != nil {
			known = append(known, *k)
		}
	}
	for id := range ids {
		if d := x.declared[id]; d != nil {
			declared = append(declared, *d)
		}
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	sort.Slice(known, func(i, j int) bool { return known[i].Path < known[j].Path })
	sort.Slice(declared, func(i, j int) bool { return declared[i].Pipeline.ID < declared[j].Pipeline.ID })
	return files, declared, known
}

// applied records that the decision about the undecided parts is applied.
func (x *index) applied(c *spec.Changes) {
	for _, path := range c.Forget {
		delete(x.known, path)
		delete(x.clashes, path)
	}
	for i := range c.Files {
		x.note(&c.Files[i])
	}
	x.all = false
	clear(x.paths)
	clear(x.ids)
}
