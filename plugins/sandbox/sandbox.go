// Package sandbox confines a process that then becomes a connector. It restricts file access with Landlock, and system
// calls with seccomp. It needs no privileges.
//
// A process can only confine itself. So a program that starts confined processes starts itself again with Command, and
// calls Launch first in main.
package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Policy describes the rights of a process. All its descendants are confined in the same way.
type Policy struct {
	Read  []string // files and directories to read and execute besides the system's; missing ones are ignored
	Write []string // files and directories that it may change, too

	// Strict denies everything but the files: no network, and no sockets except those that it listens on and those in
	// Dir whose names have SocketName bytes.
	Strict bool
	// Dir is its working directory if Strict, which it can only read: a relative path in its settings must not name a
	// file that nobody finds.
	Dir string
}

// SocketName is the length of the names of Unix sockets in Dir to which a strictly confined process can connect, as
// Go's clients do with a relative path.
const SocketName = 13

// systemFiles are the files that every program needs: code, certificates, names and time zones, and the kernel's
// information about the machine and the process itself.
var systemFiles = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives",
	"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services",
	"/etc/protocols",
	"/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/passwd", "/etc/group", "/etc/os-release",
	"/etc/mime.types",
	"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version", "/proc/filesystems",
	"/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/net", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
	"/dev/urandom", "/dev/random", "/dev/zero",
}

// systemDevices are devices that programs write to.
var systemDevices = []string{"/dev/null", "/dev/full"}

// launcher is the process name that tells a process to confine itself.
const launcher = "conduit-sandbox"

// Command returns a command that starts the executable at path confined. The program of this process must call Launch.
func Command(p Policy, path string) (*exec.Cmd, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot confine %s: %w", path, err)
	}
	policy, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("cannot confine %s: %w", path, err)
	}
	return &exec.Cmd{Path: "/proc/self/exe", Args: []string{launcher, string(policy), absolute}}, nil
}

// Launch confines a process that Command started, and executes its program. In other processes it does nothing. It must
// be called before anything else.
func Launch() {
	if len(os.Args) != 3 || os.Args[0] != launcher {
		return
	}
	var p Policy
	err := json.Unmarshal([]byte(os.Args[1]), &p)
	if err == nil {
		p.Read = append(p.Read, os.Args[2])
		err = p.become(os.Args[2])
	}
	fmt.Fprintf(os.Stderr, "cannot run %s in the sandbox: %v\n", os.Args[2], err)
	os.Exit(126)
}
