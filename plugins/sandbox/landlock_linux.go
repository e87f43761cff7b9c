//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Rights to a directory and everything below it, and the rights that also exist for other files.
const (
	fsRead   = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	fsOfFile = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate |
		ll.AccessFSIoctlDev
)

// Version returns the version of the kernel's Landlock interface; 0: none.
func Version() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}

// become confines this process and executes the file at path. It returns only on failure.
func (p *Policy) become(path string) error {
	runtime.LockOSThread() // confinement applies to one thread, which executes the file
	version := Version()
	if version == 0 {
		return errors.New("the kernel does not support Landlock, or has disabled it; to run connectors without a " +
			"sandbox, set connectors.sandbox to off")
	}
	if p.Strict {
		if err := os.Chdir(p.Dir); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot drop privileges: %w", err)
	}
	if err := p.restrictFiles(version); err != nil {
		return err
	}
	if err := restrictScopes(version); err != nil {
		return err
	}
	if err := restrictCalls(p.filter()); err != nil {
		return err
	}
	return syscall.Exec(path, []string{path}, os.Environ())
}

// restrictFiles denies access to files as far as the kernel can, and TCP if the policy is strict. In the library's best
// effort mode a kernel before 5.19 would deny nothing, because it lacks a right that the rules grant.
func (p *Policy) restrictFiles(version int) error {
	known := []landlock.Config{landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5}
	config := known[min(version, len(known))-1]
	write := config.HandledAccessFS
	if p.Strict {
		write &^= ll.AccessFSMakeSym // a link could give another process's socket a short name
	} else {
		config.HandledAccessNet = 0
	}
	var rules []landlock.Rule
	for _, path := range append(p.Read, systemFiles...) {
		rules = append(rules, allowPath(path, fsRead))
	}
	for _, path := range append(p.Write, systemDevices...) {
		rules = append(rules, allowPath(path, write))
	}
	if p.Strict {
		rules = append(rules, allowPath(p.Dir, fsRead))
	}
	ruleset, flags, err := config.NewRulesetFD(rules...)
	if err != nil {
		return fmt.Errorf("cannot create Landlock rules: %w", err)
	}
	if err := ll.LandlockRestrictSelf(ruleset, flags); err != nil {
		return fmt.Errorf("cannot apply Landlock rules: %w", err)
	}
	return nil
}

// allowPath grants rights to a file, or to a directory and everything below it. It ignores a missing file.
func allowPath(path string, rights landlock.AccessFSSet) landlock.Rule {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrPermission):
		return landlock.PathAccess(0)
	case err == nil && !info.IsDir():
		rights &= fsOfFile
	}
	return landlock.PathAccess(rights, path).IgnoreIfMissing()
}

// restrictScopes denies signals and connections to abstract sockets of other processes where the kernel can. The
// library leaves these out on kernels with a fault that concerns processes whose threads are confined one by one.
func restrictScopes(version int) error {
	if version < 6 {
		return nil
	}
	ruleset, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{Scoped: uint64(landlock.V6.Scoped)}, 0)
	if err == nil {
		err = ll.LandlockRestrictSelf(ruleset, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot restrict signals: %w", err)
	}
	return nil
}
