package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec/texts"
)

// Paths defines the files and credentials that settings of pipelines may name. The zero value allows everything.
type Paths struct {
	// Allowed are directories and files. If there are none, everything outside Own is allowed.
	Allowed []string
	// Own are files of the agent. Nothing else may name them, not even by a link.
	Own []string
	// Store is the store of the agent. Files with this name and a suffix also belong to the agent: its log, its lock,
	// the state of processors.
	Store string
	// Credentials are the names of credentials of the agent.
	Credentials []string
	// Dir is the base of relative paths, "" for the working directory.
	Dir string

	own atomic.Pointer[ownFiles]
}

// ownFiles are the files of the agent, with all links resolved.
type ownFiles struct {
	at    time.Time
	store string // prefix of further files; "" for none
	names []string
}

// ownFor is how long the resolved names of the files of the agent are used. Only the operator of the agent can change
// them, and a thousand pipelines that start would resolve them several times each.
const ownFor = time.Second

// Check returns nil if a setting may name the file at path, which need not exist. It follows links.
func (p *Paths) Check(path string) error {
	real, err := p.resolve(path)
	if err != nil {
		return fmt.Errorf("cannot resolve %s: %w", path, err)
	}
	if mine, err := p.ofAgent(real); mine || err != nil {
		return fmt.Errorf("%s belongs to the agent itself", path)
	}
	if why := ofMachine(real); why != "" {
		return fmt.Errorf("%s is %s", path, why)
	}
	if len(p.Allowed) == 0 {
		return nil
	}
	for _, allowed := range p.Allowed {
		dir, err := p.resolve(allowed)
		if err == nil && isWithin(real, dir) {
			return nil
		}
	}
	return fmt.Errorf("%s is not in pipelines.allowed-paths (%s)", path, strings.Join(p.Allowed, ", "))
}

// CheckCredential returns nil if a setting may name the credential.
func (p *Paths) CheckCredential(name string) error {
	if slices.Contains(p.Credentials, name) {
		return fmt.Errorf("credential %s belongs to the agent itself", name)
	}
	return nil
}

// isWithin reports whether path is dir or below it.
func isWithin(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// ofAgent reports whether real refers to a file of the agent, possibly by another name.
func (p *Paths) ofAgent(real string) (bool, error) {
	own, err := p.ownFiles()
	if err != nil {
		return true, err
	}
	if own.store != "" && strings.HasPrefix(real, own.store) || slices.Contains(own.names, real) {
		return true, nil
	}
	info, err := os.Stat(real)
	if err != nil {
		return false, nil // it does not exist yet
	}
	for _, name := range own.names {
		if other, err := os.Stat(name); err == nil && os.SameFile(info, other) {
			return true, nil
		}
	}
	return false, nil
}

// ownFiles returns the files of the agent.
func (p *Paths) ownFiles() (*ownFiles, error) {
	now := time.Now()
	if own := p.own.Load(); own != nil && now.Sub(own.at) < ownFor {
		return own, nil
	}
	own, names := &ownFiles{at: now}, p.Own
	if p.Store != "" {
		store, err := p.resolve(p.Store)
		if err != nil {
			return nil, err
		}
		own.store = store
		names = append(names[:len(names):len(names)], store, store+"-wal", store+"-shm", store+".dead-letters",
			store+".dead-letters-wal")
	}
	for _, name := range names {
		mine, err := p.resolve(name)
		if err != nil {
			return nil, err
		}
		own.names = append(own.names, mine)
	}
	p.own.Store(own)
	return own, nil
}

// descriptor matches an open descriptor of a process that is not a file with a path: a pipe, a socket.
var descriptor = texts.Regexp(`^/proc/[0-9]+/(?:task/[0-9]+/)?fd/`)

// isStandard reports whether a descriptor is the standard input, output or error of this process, as /dev/stdin is.
func isStandard(path string) bool {
	for _, fd := range []string{"0", "1", "2"} {
		if target, err := os.Readlink("/proc/self/fd/" + fd); err == nil && target == filepath.Base(path) {
			return true
		}
	}
	return false
}

// ofMachine returns the reason why no setting may name path: it gives access to other processes, memory or whole
// disks. It returns "" for any other path.
func ofMachine(path string) string {
	switch {
	case strings.HasPrefix(path, "/proc/") && slices.Contains([]string{"environ", "mem", "auxv"}, filepath.Base(path)):
		return "the memory or the environment of a process"
	case slices.Contains([]string{"/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port"}, path):
		return "the memory of the machine"
	case descriptor().MatchString(path) && !isStandard(path):
		return "a pipe or socket of a process"
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice {
		return "a disk, not a file on it"
	}
	return ""
}

// maxLinks bounds the number of links to follow.
const maxLinks = 40

func (p *Paths) resolve(path string) (string, error) {
	if !filepath.IsAbs(path) {
		dir, err := filepath.Abs(p.Dir)
		if err != nil {
			return "", err
		}
		path = dir + "/" + path
	}
	return resolvePath(path)
}

// resolvePath returns the path with all links resolved, as far as it exists. The argument must be absolute. It is not
// cleaned first: if dir is a link, dir/.. is not the parent of dir in the path.
func resolvePath(path string) (string, error) {
	for range maxLinks {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return real, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		path = strings.TrimRight(path, "/")
		dir, name := filepath.Split(path)
		if target, err := os.Readlink(path); err == nil { // its target does not exist yet
			if !filepath.IsAbs(target) {
				target = dir + target
			}
			path = target
			continue
		}
		parent, err := resolvePath(dir)
		if err != nil {
			return "", err
		}
		return filepath.Join(parent, name), nil
	}
	return "", errors.New("too many levels of symbolic links")
}
