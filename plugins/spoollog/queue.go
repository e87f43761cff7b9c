package spoollog

import "time"

// queue is what was appended and is not on the disk, and the commits that it belongs to. The
// mutex of the log guards it.
type queue struct {
	log        *Log          // of its commits
	next       uint64        // offset of the next record
	frames     []frame       // appended and not being committed
	bytes      int64         // of frames
	commits    []*Commit     // of frames, in order
	writing    int64         // bytes of the frames that are being written
	committing *Commit       // the last of those that are being written, nil when none is
	failures   int           // commits that failed
	delay      time.Duration // see SetHybrid
	behind     bool          // the readers do not keep up
	memory     Memory        // that frames and those being written take; nil: not counted
	short      bool          // there was none for what was appended last
}

// append adds the frames, and returns the commit that they are part of. In memory, each
// append has one of its own; what is written at once is done at once.
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

// count counts the memory of frames. Without enough, what is in memory goes to the disk.
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

// free gives the memory of n bytes of frames back.
func (q *queue) free(n int64) {
	if q.memory != nil {
		q.memory.Add(-int(n))
	}
}

// take takes everything out, to be written by the caller alone, until done.
func (q *queue) take() ([]*Commit, []frame) {
	frames := q.frames
	q.writing = q.bytes
	commits := q.drop()
	q.committing = commits[len(commits)-1]
	return commits, frames
}

// reserve keeps others from writing until done with the commit that it returns.
func (q *queue) reserve() *Commit {
	q.committing = &Commit{log: q.log, done: make(chan struct{})}
	return q.committing
}

// clear takes everything out and returns its commits.
func (q *queue) clear() []*Commit {
	q.free(q.bytes)
	return q.drop()
}

// drop is clear for frames that stay in memory.
func (q *queue) drop() []*Commit {
	commits := q.commits
	q.frames, q.commits, q.bytes = nil, nil, 0
	return commits
}

// done ends the commits that were taken. After one that failed, what was appended meanwhile
// fails like it.
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

// forget takes what all readers acknowledged, up to low, out of memory, and reports it as done.
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

// inMemory returns the first frame in memory with records at offset or behind it. There is
// none while there are records before those in memory that are being written.
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

// readerDelay returns how long a commit waits for the readers before it is written.
func (q *queue) readerDelay(c *Commit) time.Duration {
	if q.delay == 0 || q.behind {
		return 0
	}
	return time.Until(c.since.Add(q.delay))
}

// from returns how many records there are from offset on.
func (q *queue) from(offset uint64) (records uint64) {
	for i := range q.frames {
		f := &q.frames[i]
		records += f.end() - min(f.end(), max(f.first, offset))
	}
	return records
}
