package kafka

import "sync"

// A broker counts the bytes of a fetch as it keeps them, compressed. In memory they may be tens of times
// as many, and the client has a struct for each message beside them. Where that is so, less is asked for:
// it takes no more requests for the same messages than there is time for, and stays in the caches of the CPU.
const (
	fetchMemory     = 16 << 20 // of the messages of a fetch
	partitionMemory = 8 << 20  // of those of one partition in it
	leastFetch      = 64 << 10 // bytes asked for; a broker returns one batch in any case
	smoothing       = 8        // the last batch counts as one in so many
)

// fetchLimiter reduces the size of fetches while fetched messages need much memory per byte.
type fetchLimiter struct {
	fetch, partition int32
	update           func(fetch, partition int32)

	mu        sync.Mutex
	expansion float64 // bytes of memory for each byte fetched, a moving average; 0 before the first batch
}

// newFetchLimiter returns a limiter for a client whose options limit a fetch, and each partition in it, to these bytes.
func newFetchLimiter(fetch, partition int32) *fetchLimiter {
	return &fetchLimiter{fetch: fetch, partition: partition}
}

// Limit sets the function that changes the limits of the next fetches. Call Limit before the client fetches.
func (l *fetchLimiter) Limit(update func(fetch, partition int32)) { l.update = update }

// Fetched records a fetched batch: its size at the broker in bytes, more than 0, and the bytes of memory that it takes.
// Fetched may be called concurrently.
func (l *fetchLimiter) Fetched(kept, memory int) {
	e := float64(memory) / float64(kept)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expansion == 0 {
		l.expansion = e
	}
	l.expansion += (e - l.expansion) / smoothing
	l.update(l.bytes(fetchMemory, l.fetch), l.bytes(partitionMemory, l.partition))
}

// bytes returns how many bytes to ask for, most at most, that take no more than that memory.
func (l *fetchLimiter) bytes(memory int, most int32) int32 {
	return int32(max(min(float64(memory)/l.expansion, float64(most)), min(leastFetch, float64(most))))
}
