package kill

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ledger has the numbers that were produced. They run from 1 without a gap.
type ledger struct {
	mu    sync.Mutex
	n     int          // numbers 1 to n are durable in the system
	twice map[int]bool // numbers that the system may hold more than once
}

// count returns how many numbers there are.
func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// add records that n more numbers were produced, after failed attempts if uncertain.
func (l *ledger) add(n int, uncertain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.twice == nil {
		l.twice = map[int]bool{}
	}
	for range n {
		l.n++
		if uncertain {
			l.twice[l.n] = true
		}
	}
}

// promise holds the delivery guarantees of a connector.
type promise struct {
	group     func(number int) int
	unordered bool
	once      bool // no fault repeats a record
	reread    bool // every fault may repeat records
	lossy     bool // a fault may lose records
}

// verdict is the result of comparing the arrived numbers with the ledger.
type verdict struct {
	repeated int
	lost     int // if the promise is lossy; else err has them
	err      error
}

const maxListed = 5 // maximum count of numbers in an error

// judge checks that the arrived numbers are those in the ledger: all numbers, in order. A group may step back and
// repeat earlier numbers; it then continues from there. With a lossy promise numbers may be missing, and none may step
// back.
func (l *ledger) judge(got []int, p promise) (v verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make([]int, l.n+1)
	order := newOrder(l.n, p.group)
	var wrong []error
	for i, n := range got {
		if n < 1 || n > l.n {
			wrong = append(wrong, fmt.Errorf("number %d arrived, which was never produced", n))
			continue
		}
		if seen[n]++; seen[n] > 1 && !l.twice[n] {
			v.repeated++
		}
		before, ok := order.follows(n, seen[n] > 1)
		if p.lossy {
			ok = n > before
		}
		if !ok && !p.unordered {
			wrong = append(wrong, fmt.Errorf("record %d is number %d: it follows %d", i+1, n, before))
		}
	}
	var lost []int
	for n := 1; n <= l.n; n++ {
		if seen[n] == 0 {
			lost = append(lost, n)
		}
	}
	if p.lossy {
		v.lost = len(lost)
	} else if len(lost) > 0 {
		wrong = append(wrong, fmt.Errorf("%d of %d are lost: %v …", len(lost), l.n, lost[:min(len(lost), maxListed)]))
	}
	slices.Reverse(wrong) // losses first
	v.err = errors.Join(wrong[:min(len(wrong), maxListed)]...)
	return v
}

// order follows the numbers of each group.
type order struct {
	group func(int) int
	next  []int       // the number that follows each number in its group
	last  map[int]int // that arrived, by group
	first map[int]int // of each group
}

func newOrder(n int, group func(int) int) *order {
	if group == nil {
		group = func(int) int { return 0 }
	}
	o := &order{group: group, next: make([]int, n+1), last: map[int]int{}, first: map[int]int{}}
	latest := map[int]int{}
	for i := 1; i <= n; i++ {
		g := group(i)
		if before, ok := latest[g]; ok {
			o.next[before] = i
		} else {
			o.first[g] = i
		}
		latest[g] = i
	}
	return o
}

// follows reports whether n may arrive now: as the successor of the previous number in its group, or as a repetition.
func (o *order) follows(n int, again bool) (before int, ok bool) {
	g := o.group(n)
	before, begun := o.last[g]
	o.last[g] = n
	switch {
	case !begun:
		return 0, n == o.first[g]
	case again:
		return before, true
	}
	return before, o.next[before] == n
}
