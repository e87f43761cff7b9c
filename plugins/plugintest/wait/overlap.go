package wait

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
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

// CollectLess has tests take more memory, in which garbage is collected less often, which saves CPU time. Benchmarks
// are measured as programs are, and so are the processes that a test starts. GOGC counts where it is set. TestMain
// calls it.
func CollectLess() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
