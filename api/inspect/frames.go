package inspect

import "slices"

// frame is an encoded record, owned by run.
type frame struct {
	message        // {"result":…}
	number  uint64 // of the record, counted within the group
	users   int    // the group, while it keeps the frame, and each session that has yet to send it all
}

// push adds a frame and drops the oldest beyond the limits, which groups share. The newest frame stays, whatever its
// size, unless there is no memory for it.
func (f *feed) push(g *group, fr *frame) {
	if !f.hub.take(cap(fr.buffer)) {
		return
	}
	groups := max(1, len(*f.groups.Load()))
	frames, bytes := max(1, ringFrames/groups), ringBytes/groups
	for len(g.frames) > 0 && (len(g.frames) >= frames || g.size+len(fr.buffer) > bytes) {
		f.pop(g)
	}
	if fr.users = 1; len(g.frames) == 0 && !slices.Contains(f.showing, g) {
		f.showing = append(f.showing, g)
	}
	g.frames = append(g.frames, fr)
	g.size += len(fr.buffer)
	f.mu.Lock()
	defer f.mu.Unlock()
	g.next++
}

// pop drops the oldest frame.
func (f *feed) pop(g *group) {
	g.size -= len(g.frames[0].buffer)
	f.release(g.frames[0])
	g.frames[0] = nil
	g.frames = g.frames[1:]
	g.first++
}

// release ends one use of a frame. fr may be nil.
func (f *feed) release(fr *frame) {
	if fr == nil {
		return
	}
	if fr.users--; fr.users == 0 {
		f.hub.hold(-cap(fr.buffer))
	}
}

// trim drops the frames that all sessions of the group have passed, and returns the number of remaining ones.
func (f *feed) trim(g *group) int {
	low, served := g.next, 0
	for _, s := range f.sessions {
		if s.group == g {
			low = min(low, s.at)
			served++
		}
	}
	f.hub.mu.Lock()
	all := g.count
	f.hub.mu.Unlock()
	for served == all && len(g.frames) > 0 && g.first < low { // a session that is being admitted begins before next
		f.pop(g)
	}
	return len(g.frames)
}

// forget releases the memory of frames that no session needs any more.
func (f *feed) forget() {
	f.drain()
	f.clean()
}

// clean drops the frames that no session needs any more.
func (f *feed) clean() {
	f.showing = slices.DeleteFunc(f.showing, func(g *group) bool { return f.trim(g) == 0 })
}
