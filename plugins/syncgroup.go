package plugins

import (
	"slices"
	"strings"
	"sync"
)

// SyncMember is a file or another target of a destination that can be synced.
type SyncMember interface {
	// Sync makes all data durable that was written before the call. If it returns an error, the data may not be
	// durable, and another call does not change that.
	Sync() error
	// Device identifies the disk. A slow disk does not delay members on other disks.
	Device() uint64
}

// SyncGroup collects the members that need a sync. The zero SyncGroup is ready to use.
type SyncGroup struct {
	// MostDirty is the limit of data that the machine has not written to its disks, in bytes, up to which a disk is
	// synced as a whole: that writes the data of other programs too. 0 means 32 MiB.
	MostDirty int64

	mu      sync.Mutex
	written map[string]syncMembers  // guarded by mu; by pipeline
	syncing map[string]*syncWaiting // guarded by mu; by pipeline: its last unfinished sync
	disks   map[uint64]*syncDisk    // guarded by mu; disks being synced
}

// syncMembers are the members for one pipeline, nearly always a single one.
type syncMembers struct {
	first SyncMember
	more  []SyncMember
}

// syncDisk has the jobs for one disk. A goroutine processes them until there are none.
type syncDisk struct{ jobs []syncJob }

// syncJob is a member to sync for a pipeline.
type syncJob struct {
	member SyncMember
	wait   *syncWaiting
	err    error // result of Sync
}

// syncWaiting is a pipeline whose members are being synced.
type syncWaiting struct {
	pipeline string
	left     int // guarded by Group.mu: members, and 1 for the earlier sync of the pipeline
	err      error
	round    *syncRound
	next     *syncWaiting // guarded by Group.mu: waits for this one, whose data it may depend on
}

// syncRound is a call of Sync.
type syncRound struct {
	done func(pipelines []string, err error)
}

// Defer registers m to be synced before the acknowledgement of any record that the connector counts as written from now
// on. A member calls Defer again after each Sync.
func (g *SyncGroup) Defer(connectorID string, m SyncMember) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.written == nil {
		g.written, g.syncing, g.disks = map[string]syncMembers{}, map[string]*syncWaiting{}, map[uint64]*syncDisk{}
	}
	pipeline := connectorID[:max(0, strings.LastIndexByte(connectorID, ':'))]
	all := g.written[pipeline]
	switch {
	case all.first == nil:
		all.first = m
	case all.first != m && !slices.Contains(all.more, m):
		all.more = append(all.more, m)
	}
	g.written[pipeline] = all
}

// Sync makes all earlier writes of the connectors of the pipelines durable, including writes that an earlier call is
// still syncing. It calls done once for every pipeline: before it returns for pipelines with nothing to sync, and from
// another goroutine for the others.
func (g *SyncGroup) Sync(pipelines []string, done func(pipelines []string, err error)) {
	var idle []string
	r := &syncRound{done}
	all := make([]syncWaiting, 0, len(pipelines)) // never grows: jobs point into it
	g.mu.Lock()
	for _, pipeline := range pipelines {
		wrote, ok := g.written[pipeline]
		before := g.syncing[pipeline]
		if !ok && before == nil {
			idle = append(idle, pipeline)
			continue
		}
		all = append(all, syncWaiting{pipeline: pipeline, round: r})
		w := &all[len(all)-1]
		g.syncing[pipeline] = w
		if before != nil {
			before.next = w
			w.left++
		}
		if !ok {
			continue
		}
		delete(g.written, pipeline)
		w.left += 1 + len(wrote.more)
		g.add(syncJob{member: wrote.first, wait: w})
		for _, m := range wrote.more {
			g.add(syncJob{member: m, wait: w})
		}
	}
	g.mu.Unlock()
	if len(idle) > 0 {
		done(idle, nil)
	}
}

func (g *SyncGroup) add(j syncJob) {
	device := j.member.Device()
	d := g.disks[device]
	if d == nil {
		d = &syncDisk{}
		g.disks[device] = d
		go g.run(device, d)
	}
	d.jobs = append(d.jobs, j)
}

// run processes the jobs for a disk until there are none.
func (g *SyncGroup) run(device uint64, d *syncDisk) {
	for {
		g.mu.Lock()
		jobs := d.jobs
		if d.jobs = nil; len(jobs) == 0 {
			delete(g.disks, device)
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.syncAll(jobs)
		g.finish(jobs)
	}
}

// finish reports the pipelines whose members are all synced. It reports the pipelines of a round together, unless a
// sync failed. The jobs of a round are consecutive. A pipeline counts as being synced until it is reported, so a call
// of Sync in the meantime gets the same outcome.
func (g *SyncGroup) finish(jobs []syncJob) {
	var failed, over []*syncWaiting
	finished := make([]string, 0, len(jobs))
	for len(jobs) > 0 {
		r, n := jobs[0].wait.round, 0
		g.mu.Lock()
		for n < len(jobs) && jobs[n].wait.round == r {
			if w := jobs[n].wait; w.finished(jobs[n].err) {
				if over = append(over, w); w.err == nil {
					finished = append(finished, w.pipeline)
				} else {
					failed = append(failed, w)
				}
			}
			n++
		}
		g.mu.Unlock()
		if jobs = jobs[n:]; len(finished) > 0 {
			r.done(finished, nil)
			finished = finished[len(finished):]
		}
	}
	for _, w := range failed {
		w.round.done([]string{w.pipeline}, w.err)
	}
	for _, w := range over {
		for w = g.follower(w); w != nil; w = g.follower(w) {
			w.round.done([]string{w.pipeline}, w.err)
		}
	}
}

// follower returns the waiting that follows w, after the outcome of w was reported, if it is now finished, too.
func (g *SyncGroup) follower(w *syncWaiting) *syncWaiting {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.syncing[w.pipeline] == w {
		delete(g.syncing, w.pipeline)
	}
	if w.next != nil && w.next.finished(w.err) {
		return w.next
	}
	return nil
}

// finished records the outcome of one sync that w waits for, and reports whether it was the last one.
func (w *syncWaiting) finished(err error) bool {
	if err != nil {
		w.err = err
	}
	w.left--
	return w.left == 0
}
