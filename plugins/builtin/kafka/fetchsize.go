package kafka

import "sync"

// A broker counts the bytes of a fetch in their compressed form. In memory the messages may be tens of times larger,
// and the client has a struct for each message in addition. In that case the client requests fewer bytes: this needs no
// more requests than there is time for, and keeps the messages in the CPU caches.
const (
	fetchMemory     = 16 << 20 // for the messages of a fetch
	partitionMemory = 8 << 20  // for the messages of a partition in it
	minFetch        = 64 << 10 // bytes requested; a broker returns one batch in any case
	smoothing       = 8        // the last batch has a weight of 1/smoothing
)

// fetchLimiter reduces the size of fetches while fetched messages need much memory per byte.
type fetchLimiter struct {
	fetch, partition int32
	update           func(fetch, partition int32)

	mu        sync.Mutex
	expansion float64 // bytes of memory per fetched byte, a moving average; 0 before the first batch
}

// newFetchLimiter returns a limiter for a client whose options limit a fetch, and each partition in it, to these bytes.
func newFetchLimiter(fetch, partition int32) *fetchLimiter {
	return &fetchLimiter{fetch: fetch, partition: partition}
}

// Limit sets the function that changes the limits of the next fetches. Call Limit before the client fetches.
func (l *fetchLimiter) Limit(update func(fetch, partition int32)) { l.update = update }

// Fetched records a fetched batch: its size at the broker in bytes, more than 0, and its size in memory in bytes. It is
// safe for concurrent use.
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

// bytes returns the number of bytes to request so that they fit into memory, between minFetch and most.
func (l *fetchLimiter) bytes(memory int, most int32) int32 {
	return int32(max(min(float64(memory)/l.expansion, float64(most)), min(minFetch, float64(most))))
}
