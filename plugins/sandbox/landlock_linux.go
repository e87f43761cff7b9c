//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock, by the interface version that introduced them.
const (
	fsRead    = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fsVersion = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1 // all rights of version 1
	fsOfFile  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// Version returns the version of the kernel's Landlock interface; 0: none.
func Version() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// become confines this process and executes the file at path. It returns only on failure.
func (p *Policy) become(path string) error {
	runtime.LockOSThread() // confinement applies to one thread, which executes the file
	version := Version()
	if version == 0 {
		return errors.New("this kernel has no Landlock, or it is turned off (connectors.sandbox: off runs connectors without)")
	}
	if p.Strict {
		if err := os.Chdir(p.Dir); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot give up privileges: %w", err)
	}
	if err := p.restrictFiles(version); err != nil {
		return err
	}
	if err := restrictCalls(p.filter()); err != nil {
		return err
	}
	return syscall.Exec(path, []string{path}, os.Environ())
}

// handled returns the rights that are denied unless a rule grants them.
func (p *Policy) handled(version int) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fsVersion}
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 && p.Strict {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

func (p *Policy) restrictFiles(version int) error {
	attr := p.handled(version)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("cannot make Landlock rules: %w", errno)
	}
	ruleset := int(fd)
	for _, path := range append(p.Read, systemFiles...) {
		if err := allowPath(ruleset, path, fsRead); err != nil {
			return err
		}
	}
	write := attr.Handled_access_fs
	if p.Strict {
		write &^= unix.LANDLOCK_ACCESS_FS_MAKE_SYM // a link could give another process's socket a short name
	}
	for _, path := range append(p.Write, systemDevices...) {
		if err := allowPath(ruleset, path, write); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("cannot apply Landlock rules: %w", errno)
	}
	return nil
}

// allowPath grants rights to a file, or to a directory and everything below it. It ignores a missing file.
func allowPath(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("cannot inspect %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fsOfFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("cannot allow %s: %w", path, errno)
	}
	return nil
}
