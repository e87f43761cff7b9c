package wait

import (
	"flag"
	"runtime"
	"strconv"
)

// Overlap has so many tests for each CPU run at once, unless -parallel says how many: most of the
// time they wait for processes. TestMain calls it.
func Overlap(perCPU int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(perCPU*runtime.GOMAXPROCS(0)))
	}
}
