package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// PortOwner returns the process that listens on a TCP port of this machine, as "process 7 (conduit)". It returns "" if
// there is none or it is not visible: only root sees processes of other users.
func PortOwner(port int) string {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if inode := listener(line, port); inode != "" {
				sockets["socket:["+inode+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return ""
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, path := range open {
		if target, err := os.Readlink(path); err == nil && sockets[target] {
			pid := strings.Split(path, "/")[2]
			name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			return fmt.Sprintf("process %s (%s)", pid, bytes.TrimSpace(name))
		}
	}
	return ""
}

// listener returns the inode of a line of /proc/net/tcp if it is a socket that listens on port.
func listener(line string, port int) (inode string) {
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != listening {
		return ""
	}
	_, local, _ := strings.Cut(fields[1], ":")
	number, err := strconv.ParseUint(local, 16, 16)
	if err != nil || int(number) != port {
		return ""
	}
	return fields[9]
}
