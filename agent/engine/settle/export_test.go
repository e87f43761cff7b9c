package settle

// Held returns how many batches and ranges the tracker keeps.
func (t *Tracker) Held() int { return len(t.inFlight) + len(t.settled) }
