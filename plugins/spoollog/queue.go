package spoollog

import "time"

// queue holds the appended frames that are not on disk, and their commits. The mutex of the log guards it.
type queue struct {
	log        *Log          // log of the commits
	next       uint64        // offset of the next record
	frames     []frame       // appended, not yet being committed
	bytes      int64         // of frames
	commits    []*Commit     // commits of frames, in order
	writing    int64         // bytes of the frames being written
	committing *Commit       // last commit being written, nil if none
	failures   int           // number of failed commits
	delay      time.Duration // see SetHybrid
	behind     bool          // the readers do not keep up
	memory     Memory        // accounts for frames and the frames being written; nil: none
	short      bool          // there was no memory for the last append
}

// append adds the frames and returns their commit. Each append has its own commit while frames wait in memory; frames
// that are written at once share a commit.
func (q *queue) append(frames []Frame, now time.Time) *Commit {
	for _, f := range frames {
		f.frame.first, f.frame.time = q.next, now
		q.next = f.frame.end()
		q.frames = append(q.frames, f.frame)
		q.bytes += int64(len(f.frame.data))
	}
	q.count(frames)
	if q.delay > 0 || len(q.commits) == 0 {
		q.commits = append(q.commits, &Commit{log: q.log, since: now, done: make(chan struct{})})
	}
	c := q.commits[len(q.commits)-1]
	c.end = q.next
	return c
}

// count reserves the memory of frames. Without enough memory, the frames in memory are written to disk.
func (q *queue) count(frames []Frame) {
	if q.memory == nil {
		return
	}
	n := 0
	for _, f := range frames {
		n += len(f.frame.data)
	}
	if q.short = !q.memory.Take(n); q.short {
		q.memory.Add(n)
		q.behind = true
	}
}

// free frees the memory of n bytes of frames.
func (q *queue) free(n int64) {
	if q.memory != nil {
		q.memory.Add(-int(n))
	}
}

// take removes all commits and frames. The caller writes them, and no one else writes until done.
func (q *queue) take() ([]*Commit, []frame) {
	frames := q.frames
	q.writing = q.bytes
	commits := q.drop()
	q.committing = commits[len(commits)-1]
	return commits, frames
}

// reserve prevents others from writing until done is called with the returned commit.
func (q *queue) reserve() *Commit {
	q.committing = &Commit{log: q.log, done: make(chan struct{})}
	return q.committing
}

// clear removes everything and returns the commits.
func (q *queue) clear() []*Commit {
	q.free(q.bytes)
	return q.drop()
}

// drop is like clear, but the frames stay in memory.
func (q *queue) drop() []*Commit {
	commits := q.commits
	q.frames, q.commits, q.bytes = nil, nil, 0
	return commits
}

// done ends the commits that take returned. If err is not nil, commits appended in the meantime fail with it, too.
func (q *queue) done(commits []*Commit, err error) {
	if err != nil {
		q.failures++
		commits = append(commits, q.clear()...)
	}
	q.committing = nil
	q.free(q.writing)
	q.writing = 0
	for _, c := range commits {
		c.err = err
		close(c.done)
	}
}

// forget removes the frames that all readers acknowledged, up to offset low, from memory, and ends their commits.
func (q *queue) forget(low uint64) {
	if q.delay == 0 {
		return
	}
	n, freed := 0, int64(0)
	for n < len(q.frames) && q.frames[n].end() <= low {
		freed += int64(len(q.frames[n].data))
		n++
	}
	q.bytes -= freed
	q.free(freed)
	q.frames = q.frames[n:]
	for n = 0; n < len(q.commits) && q.commits[n].end <= low; n++ {
		close(q.commits[n].done)
	}
	q.commits = q.commits[n:]
	if low == q.next {
		q.behind = false
	}
}

// inMemory returns the first frame in memory with records at or after offset. It returns none while earlier records are
// being written.
func (q *queue) inMemory(offset uint64) (frame, bool) {
	if q.delay == 0 || q.committing != nil {
		return frame{}, false
	}
	for _, f := range q.frames {
		if f.end() > offset {
			return f, true
		}
	}
	return frame{}, false
}

// readerDelay returns the time that a commit waits for the readers before it is written.
func (q *queue) readerDelay(c *Commit) time.Duration {
	if q.delay == 0 || q.behind {
		return 0
	}
	return time.Until(c.since.Add(q.delay))
}

// from returns the number of records at or after offset.
func (q *queue) from(offset uint64) (records uint64) {
	for i := range q.frames {
		f := &q.frames[i]
		records += f.end() - min(f.end(), max(f.first, offset))
	}
	return records
}
