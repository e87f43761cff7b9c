package wait

import (
	"flag"
	"os"
	"runtime/debug"
)

// CollectLess makes tests use more memory and collect garbage less often, which saves CPU time. Benchmarks, and
// processes that a test starts, keep the default of programs. An explicit GOGC takes precedence. TestMain calls it.
func CollectLess() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
