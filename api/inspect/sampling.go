package inspect

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Sampling limits the cost of inspection. All sessions of the server share these limits, so a thousand sessions take
// from a pipeline no more than a few do: each sees a smaller sample.
const (
	rateAlone     = 2000    // messages per second to a session that is alone
	rateTogether  = 1000    // messages per second to all sessions together
	rateLeast     = 1       // minimum of records per second that a connector shows
	burst         = 1000    // records that it shows at once
	bytesPerToken = 4 << 10 // bytes of a record that cost as much as another record
)

// recordBucket is a token bucket of records. A large record takes more than one token. The zero bucket is full.
type recordBucket struct {
	mu     sync.Mutex
	bucket *rate.Limiter // guarded by mu; nil until first use
}

// take returns how many of n records, which cost this many tokens each, fit into the bucket at perSecond. It may
// overdraw the bucket once, which delays the next records.
func (b *recordBucket) take(n, cost int, perSecond int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, size := time.Now(), int(min(perSecond, burst))
	if b.bucket == nil {
		b.bucket = rate.NewLimiter(rate.Limit(perSecond), size)
	}
	if b.bucket.Burst() != size || b.bucket.Limit() != rate.Limit(perSecond) {
		b.bucket.SetLimitAt(now, rate.Limit(perSecond))
		b.bucket.SetBurstAt(now, size)
	}
	left := int(b.bucket.TokensAt(now))
	if left < 1 {
		return 0
	}
	n = min(n, max(1, left/cost))
	overdraw(b.bucket, now, n*cost)
	return n
}

// filterShare limits filters to 1/filterShare of the time of a CPU.
const filterShare = 32

// timeBucket is a token bucket of the nanoseconds that filters take. The zero bucket
// is full.
type timeBucket struct {
	once   sync.Once
	bucket *rate.Limiter
}

// use calls do unless the bucket is empty, and reports whether it did. do may overdraw the
// bucket, which delays the next call. The bucket holds burst when it is full.
func (b *timeBucket) use(burst time.Duration, do func()) bool {
	b.once.Do(func() { b.bucket = rate.NewLimiter(rate.Limit(time.Second/filterShare), int(burst)) })
	began := time.Now()
	if b.bucket.TokensAt(began) <= 0 {
		return false
	}
	do()
	now := time.Now()
	overdraw(b.bucket, now, int(now.Sub(began)))
	return true
}

// overdraw takes n tokens, even if the bucket does not have them yet.
func overdraw(bucket *rate.Limiter, now time.Time, n int) {
	for size := bucket.Burst(); n > 0 && size > 0; n -= size {
		bucket.ReserveN(now, min(n, size))
	}
}

// perSession returns the number of messages per second for each session.
func (h *Hub) perSession() int64 {
	total := h.total.Load()
	if total <= 1 {
		return rateAlone
	}
	return max(rateLeast, rateTogether/total)
}
