package kafka

import "testing"

// TestLimiter checks that fetches get smaller when messages expand, and otherwise keep the size in the options.
func TestLimiter(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	l := newFetchLimiter(4*mib, mib)
	var fetch, partition int32
	l.Limit(func(f, p int32) { fetch, partition = f, p })
	read := func(batches, kept, memory int) {
		for range batches {
			l.Fetched(kept, memory)
		}
	}
	read(50, mib, 2*mib)
	if fetch != 4*mib || partition != mib {
		t.Fatalf("messages twice as large as in the broker: %d and %d bytes asked for", fetch, partition)
	}
	read(100, mib, 16*mib)
	if near := func(got, want int32) bool { return got > want*7/10 && got < want*14/10 }; !near(fetch, mib) ||
		!near(partition, mib/2) {
		t.Errorf("sixteen times as large: %d and %d bytes asked for", fetch, partition)
	}
	read(100, mib, 1000*mib)
	if fetch != minFetch || partition != minFetch {
		t.Errorf("a thousand times as large: %d and %d bytes asked for", fetch, partition)
	}
	read(200, mib, mib)
	if fetch != 4*mib || partition != mib {
		t.Errorf("as large as in the broker again: %d and %d bytes asked for", fetch, partition)
	}
	small := newFetchLimiter(1000, 1000)
	small.Limit(func(f, p int32) {
		if f != 1000 || p != 1000 {
			t.Errorf("%d and %d bytes asked for of 1000", f, p)
		}
	})
	small.Fetched(mib, 1000*mib)
}
