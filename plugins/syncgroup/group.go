// Package syncgroup makes durable what destinations of this process wrote, many at a time,
// before the agent saves how far their sources got.
package syncgroup

import (
	"strings"
	"sync"
)

// Member is what a destination writes to.
type Member interface {
	// Sync makes durable all that was written before it was called. After an error it may
	// not be, and will not be by another call.
	Sync() error
	// Device says which disk it is on: a disk that is slow costs those on others nothing.
	Device() uint64
}

// Group collects members that were written to. The zero Group is ready to use.
type Group struct {
	mu      sync.Mutex
	written map[string]map[Member]bool // guarded by mu; by the qualified id of the connector
	disks   map[uint64]*disk           // guarded by mu; those that are being synced
}

// disk has the jobs for one disk. A goroutine does them as long as there are any.
type disk struct{ jobs []job }

// job is a member to sync for a pipeline.
type job struct {
	member Member
	wait   *waiting
}

// waiting is a pipeline of which members are being synced.
type waiting struct {
	pipeline string
	left     int // guarded by Group.mu
	err      error
	round    *round
}

// round is a call of Sync.
type round struct {
	done func(pipelines []string, err error)
}

// Defer has m synced before anything is acknowledged that the connector counts as written
// from now on. A member defers again after each call of its Sync.
func (g *Group) Defer(connectorID string, m Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.written == nil {
		g.written, g.disks = map[string]map[Member]bool{}, map[uint64]*disk{}
	}
	if g.written[connectorID] == nil {
		g.written[connectorID] = map[Member]bool{}
	}
	g.written[connectorID][m] = true
}

// Sync makes durable what the connectors of the pipelines wrote until now. It calls done for every
// pipeline, once: from within, for those that wrote nothing; from another goroutine for
// the others.
func (g *Group) Sync(pipelines []string, done func(pipelines []string, err error)) {
	var idle []string
	r := &round{done}
	g.mu.Lock()
	members := g.take(pipelines)
	for _, pipeline := range pipelines {
		if len(members[pipeline]) == 0 {
			idle = append(idle, pipeline)
			continue
		}
		w := &waiting{pipeline: pipeline, left: len(members[pipeline]), round: r}
		for _, m := range members[pipeline] {
			g.add(job{m, w})
		}
	}
	g.mu.Unlock()
	if len(idle) > 0 {
		done(idle, nil)
	}
}

// take removes and returns the members of the pipelines.
func (g *Group) take(pipelines []string) map[string][]Member {
	if len(g.written) == 0 {
		return nil
	}
	wanted := make(map[string]bool, len(pipelines))
	for _, p := range pipelines {
		wanted[p] = true
	}
	taken := map[string][]Member{}
	for id, members := range g.written {
		pipeline := id[:max(0, strings.LastIndexByte(id, ':'))]
		if !wanted[pipeline] {
			continue
		}
		for m := range members {
			taken[pipeline] = append(taken[pipeline], m)
		}
		delete(g.written, id)
	}
	return taken
}

func (g *Group) add(j job) {
	device := j.member.Device()
	d := g.disks[device]
	if d == nil {
		d = &disk{}
		g.disks[device] = d
		go g.run(device, d)
	}
	d.jobs = append(d.jobs, j)
}

// run does the jobs for a disk until there are none.
func (g *Group) run(device uint64, d *disk) {
	for {
		g.mu.Lock()
		jobs := d.jobs
		if d.jobs = nil; len(jobs) == 0 {
			delete(g.disks, device)
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.finish(jobs, syncAll(jobs))
	}
}

// syncAll syncs every member once.
func syncAll(jobs []job) map[Member]error {
	results := make(map[Member]error, len(jobs))
	for _, j := range jobs {
		if _, ok := results[j.member]; !ok {
			results[j.member] = j.member.Sync()
		}
	}
	return results
}

// finish reports the pipelines of which all members were synced: those of a round together,
// unless something failed.
func (g *Group) finish(jobs []job, results map[Member]error) {
	finished, failed := map[*round][]string{}, []*waiting(nil)
	g.mu.Lock()
	for _, j := range jobs {
		w := j.wait
		if err := results[j.member]; err != nil {
			w.err = err
		}
		w.left--
		switch {
		case w.left > 0:
		case w.err != nil:
			failed = append(failed, w)
		default:
			finished[w.round] = append(finished[w.round], w.pipeline)
		}
	}
	g.mu.Unlock()
	for r, pipelines := range finished {
		r.done(pipelines, nil)
	}
	for _, w := range failed {
		w.round.done([]string{w.pipeline}, w.err)
	}
}
