package inspect

import (
	"testing"
	"testing/synctest"
	"time"
)

// However many records pass, inspectors see as many at once as the bucket holds, and then its rate.
func TestRecordBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b recordBucket
		all := func() (seen int) {
			for range 200 {
				seen += b.take(1000, 1, 100)
			}
			return seen
		}
		if seen := all(); seen != 100 {
			t.Errorf("%d of 200,000 are seen at once, want the 100 of a second", seen)
		}
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			if seen := all(); seen != 10 {
				t.Errorf("%d are seen in a tenth of a second, want 10", seen)
			}
		}
		if time.Sleep(time.Second); b.take(1, 1000, 100) != 1 || b.take(1, 1, 100) != 0 {
			t.Error("a record that costs more than the bucket holds is not seen alone")
		}
		time.Sleep(8 * time.Second)
		if n := b.take(1, 1, 100); n != 0 {
			t.Error("a record is seen before the one before it is paid for")
		}
		time.Sleep(2 * time.Second)
		if n := b.take(1, 1, 100); n != 1 {
			t.Error("no record is seen after the large one is paid for")
		}
		if seen := new(recordBucket).take(10_000, 1, 10_000); seen != burst {
			t.Errorf("%d are seen at once, want %d", seen, burst)
		}
	})
}
