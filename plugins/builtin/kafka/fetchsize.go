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

// fetchLimiter has a client fetch less than its options say as long as messages need much memory for a byte that
// is fetched.
type fetchLimiter struct {
	fetch, partition int32
	update           func(fetch, partition int32)

	mu        sync.Mutex
	expansion float64 // bytes of memory for each byte fetched, a moving average; 0 before the first batch
}

// newFetchLimiter returns a limiter. fetch and partition are the bytes that the options of the client ask for: in a
// fetch, and of one partition in it.
func newFetchLimiter(fetch, partition int32) *fetchLimiter {
	return &fetchLimiter{fetch: fetch, partition: partition}
}

// Limit has update be called with what the next fetches are to ask for. It is called before the client fetches.
func (l *fetchLimiter) Limit(update func(fetch, partition int32)) { l.update = update }

// Fetched takes note of a batch that was fetched: its bytes as the broker keeps it, more than 0, and those of the memory
// that it takes. It may be called concurrently.
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
