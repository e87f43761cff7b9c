package standalone

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// limits are the hard limits that mark processes: the value before this process changed it, and the new value.
type limits struct{ inherited, own string }

// mark marks this process and all processes that it starts from now on. The mark is a random value of RLIMIT_LOCKS,
// which Linux has not enforced since 2.4. Unlike the environment, the session and the parent, programs have no reason
// to change it. Without the right to raise the limit, own is empty if the limit is too low to choose a value.
var mark = sync.OnceValue(func() limits {
	var before unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &before) != nil {
		return limits{}
	}
	m := limits{inherited: strconv.FormatUint(before.Max, 10)}
	half := min(before.Max, math.MaxInt) / 2 // int, because the kernel of a 32-bit machine holds 32 bits
	if half < 1<<20 {
		return m
	}
	value := half + rand.Uint64N(half)
	if unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: value, Max: value}, nil) == nil {
		m.own = strconv.FormatUint(value, 10)
	}
	return m
})

// carries reports whether the process has one of the marks. Any user can read the limits of a process.
func carries(pid int, marks []string) bool {
	if len(marks) == 0 {
		return false
	}
	content, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	_, line, _ := strings.Cut(string(content), "\nMax file locks ")
	fields := strings.Fields(line)
	return len(fields) > 1 && slices.Contains(marks, fields[1]) // the second is the hard limit
}
