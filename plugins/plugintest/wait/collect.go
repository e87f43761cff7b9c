package wait

import (
	"flag"
	"os"
	"runtime/debug"
)

// CollectLess has tests take more memory, in which garbage is collected less often, which saves CPU time. Benchmarks
// are measured as programs are, and so are the processes that a test starts. GOGC counts where it is set. TestMain
// calls it.
func CollectLess() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
