package process

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// ReleaseMemory returns memory to the kernel that only startup needed: memory freed by the collector, and the pages of
// the executable.
func ReleaseMemory() error {
	debug.FreeOSMemory()
	return ReleasePages()
}

// ReleasePages returns the pages of the executable to the kernel. When code or constants on these pages are used again,
// the kernel maps them again from its cache; most initialization code never is.
func ReleasePages() error {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("cannot find the executable: %w", err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("cannot read the mappings: %w", err)
	}
	for _, m := range pristine(string(smaps), exe) {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start,
			syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("cannot hand back the pages of the executable: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// pristine returns the mappings of the file that are unchanged and not writable: pages of other mappings would be
// lost.
func pristine(smaps, file string) []mapping {
	var all []mapping
	var m mapping
	candidate := false
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		if len(fields) >= 5 && !strings.HasSuffix(fields[0], ":") {
			// start-end mode offset device inode name
			_, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end)
			candidate = err == nil && !strings.Contains(fields[1], "w") && strings.Join(fields[5:], " ") == file
		} else if candidate && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" {
			all = append(all, m)
		}
	}
	return all
}
