package watch

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// mounts returns the mount points below dir.
func mounts(dir string) map[string]bool {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	at := map[string]bool{}
	within := escape.Replace(filepath.Clean(dir))
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, within) {
			continue // most lines
		}
		if fields := strings.Fields(line); len(fields) > 4 {
			at[unescape.Replace(fields[4])] = true
		}
	}
	return at
}

var (
	escape   = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
)

// remote reports whether dir is on a file system that has no events of changes made
// elsewhere: NFS, SMB, CIFS, 9P, FUSE, Ceph, AFS.
func remote(dir string) bool {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case 0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997, 0x65735546, 0x00c36400, 0x5346414f:
		return true
	}
	return false
}
