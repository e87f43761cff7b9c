// Package sandbox confines a process that then becomes a connector: which files it may
// reach, by Landlock, and which system calls it may make, by seccomp. It needs no privileges.
//
// A process can only confine itself, so a program that starts confined ones starts itself
// again, by Command, and calls Launch first of all in main.
package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Policy says what a process may do. Everything that it starts is confined as it is.
type Policy struct {
	Read  []string // files and directories that it may read and execute, in addition to the system's; those that are missing do not count
	Write []string // files and directories that it may change, too

	// Strict leaves it nothing but the files: no network, and no sockets except those on which it listens itself and
	// those in Dir whose names have SocketName bytes.
	Strict bool
	Dir    string // its working directory when strict
}

// SocketName is the length of the names in Dir at which a strictly confined process can connect to
// Unix sockets, as Go's clients do by a relative path.
const SocketName = 13

// systemFiles are what programs need to run at all: code, certificates, names and time
// zones, and what the kernel says of this machine and of the process itself.
var systemFiles = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives",
	"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
	"/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/passwd", "/etc/group", "/etc/os-release", "/etc/mime.types",
	"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version", "/proc/filesystems",
	"/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/net", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
	"/dev/urandom", "/dev/random", "/dev/zero",
}

// systemDevices are what programs write to.
var systemDevices = []string{"/dev/null", "/dev/full"}

// launcher is the name under which a process knows that it is to confine itself.
const launcher = "conduit-sandbox"

// Command returns what starts the executable at path confined. The program that this
// process runs must call Launch.
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

// Launch turns a process that Command started into the confined one, and does nothing in
// others. It is called before anything else.
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
	fmt.Fprintf(os.Stderr, "cannot run %s confined: %v\n", os.Args[2], err)
	os.Exit(126)
}
