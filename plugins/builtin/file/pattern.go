package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// anyDirectories is the element of a pattern that stands for any number of directories, also none.
const anyDirectories = "**"

// checkPattern returns an error for a path with pattern syntax of other programs, unless a file with this name exists.
func checkPattern(setting, path string) error {
	wrong := func(message string) error {
		if setting != "path" { // a list: the message names the item
			message = fmt.Sprintf("pattern %q %s", path, message)
		}
		return sdk.SettingError{Setting: setting, Message: message}
	}
	_, err := filepath.Match(path, "")
	open := strings.IndexByte(path, '{')
	switch _, missing := os.Lstat(path); {
	case missing == nil && setting == "path":
		return nil
	case strings.ContainsRune(path, 0):
		return wrong("has a NUL byte: no path has one")
	case err != nil:
		return wrong("has a [ without its ]: it is no pattern")
	case strings.Contains(strings.ReplaceAll("/"+path+"/", "/"+anyDirectories+"/", "//"), anyDirectories):
		return wrong("has ** next to other characters: ** stands for directories, alone between two /, such as " +
			"logs/**/*.log")
	case open >= 0 && strings.Contains(path[open:], ",") && strings.Contains(path[open:], "}"):
		return wrong("has {…,…}, which is not supported: use one source for each name, or *, ?, [a-z] and **")
	case strings.HasPrefix(path, "~/"):
		return wrong("has ~, which only a shell expands: write the home directory")
	}
	return nil
}

// fixedPart returns the path up to the first element that is a pattern.
func fixedPart(path string) string {
	for strings.ContainsAny(path, `*?[\`) {
		path = filepath.Dir(path)
	}
	return path
}

// elements are the elements of a path or a pattern.
type elements []string

// elementsOf splits a pattern. Files below its last element belong to a pattern that ends in **.
func elementsOf(pattern string) elements {
	all := elements(strings.Split(filepath.Clean(pattern), "/"))
	all = slices.CompactFunc(all, func(a, b string) bool { return a == anyDirectories && b == anyDirectories })
	if all[len(all)-1] == anyDirectories {
		all = append(all, "*")
	}
	return all
}

// match reports whether the pattern matches a whole path. Its time grows with the product of their lengths.
func (e elements) match(path elements) bool {
	states := e.closure([]int{0})
	for _, name := range path {
		var next []int
		for _, s := range states {
			switch {
			case s == len(e):
			case e[s] == anyDirectories:
				next = append(next, s)
			case e.is(s, name):
				next = append(next, s+1)
			}
		}
		states = e.closure(next)
	}
	return slices.Contains(states, len(e))
}

// is reports whether element s matches a name.
func (e elements) is(s int, name string) bool {
	ok, err := filepath.Match(e[s], name) // checkPattern has checked the whole
	return err == nil && ok
}

// closure adds to states, which are sorted, those behind **, which may stand for no directory.
func (e elements) closure(states []int) []int {
	for i := 0; i < len(states); i++ {
		if s := states[i]; s < len(e) && e[s] == anyDirectories {
			states = append(states, s+1)
		}
	}
	slices.Sort(states)
	return slices.Compact(states)
}

// exclusion is a pattern of files, and of directories with all that is in them, which are not read.
type exclusion struct {
	text  string
	parts elements
	name  bool // it has no /, and matches the name of a file or directory
}

func newExclusions(patterns []string) (all []exclusion, err error) {
	for _, text := range patterns {
		if text == "" {
			continue
		}
		if err := checkPattern("exclude", text); err != nil {
			return nil, err
		}
		name := !strings.Contains(strings.TrimSuffix(text, "/"), "/")
		all = append(all, exclusion{text: text, parts: elements(strings.Split(filepath.Clean(text), "/")), name: name})
	}
	return all, nil
}

// matches reports whether the pattern excludes the file or directory at a path, without a look at the directories
// above.
func (x *exclusion) matches(path string) bool {
	if x.name {
		return x.parts.match(elements{filepath.Base(path)})
	}
	return x.parts.match(strings.Split(filepath.Clean(path), "/"))
}

// excluded returns the index of the pattern that excludes a path or one of its directories below base, or -1.
func excluded(all []exclusion, base, path string) int {
	for path != base && path != "." && path != "/" {
		if i := slices.IndexFunc(all, func(x exclusion) bool { return x.matches(path) }); i >= 0 {
			return i
		}
		path = filepath.Dir(path)
	}
	return -1
}

// Bounds of a search for files.
const (
	maxFiles   = 20_000
	maxEntries = 1_000_000 // names in directories
)

// search finds the files that a pattern with ** matches. Such a pattern enters neither hidden directories nor links to
// directories, so that a loop of links has no effect.
type search struct {
	pattern elements
	enter   func(path string) bool      // false: the directory is excluded
	failed  func(dir string, err error) // called for each directory that cannot be listed
	found   []string
	entries int
}

// in searches a directory that is reached with these states of the pattern.
func (s *search) in(dir string, states []int) error {
	literal := !slices.ContainsFunc(states, func(i int) bool { return fixedPart(s.pattern[i]) != s.pattern[i] })
	var all []fs.DirEntry
	if literal { // the directory itself need not be readable
		for _, i := range states {
			if info, err := os.Lstat(filepath.Join(dir, s.pattern[i])); err == nil {
				all = append(all, fs.FileInfoToDirEntry(info))
			}
		}
	} else {
		var err error
		if all, err = os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.failed(dir, err)
		}
	}
	if s.entries += len(all); s.entries > maxEntries {
		return fmt.Errorf("there are more than %d files and directories to look at", maxEntries)
	}
	for _, e := range all {
		if err := s.entry(filepath.Join(dir, e.Name()), e, states); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) entry(path string, e fs.DirEntry, states []int) error {
	var next []int
	file := false
	for _, i := range states {
		switch {
		case s.pattern[i] == anyDirectories:
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				next = append(next, i)
			}
		case !s.pattern.is(i, e.Name()):
		case i == len(s.pattern)-1:
			file = true
		default:
			next = append(next, i+1)
		}
	}
	if file && !e.IsDir() {
		s.found = append(s.found, path)
	}
	if len(next) == 0 || !s.enter(path) {
		return nil
	}
	if !e.IsDir() {
		if info, err := os.Stat(path); e.Type()&fs.ModeSymlink == 0 || err != nil || !info.IsDir() {
			return nil
		}
	}
	return s.in(path, s.pattern.closure(next))
}

// run returns the paths of the files in order.
func (s *search) run() ([]string, error) {
	base, at := ".", 0
	for at < len(s.pattern)-1 && fixedPart(s.pattern[at]) == s.pattern[at] {
		at++
	}
	if at > 0 {
		if base = strings.Join(s.pattern[:at], "/"); base == "" {
			base = "/"
		}
	}
	if err := s.in(base, s.pattern.closure([]int{at})); err != nil {
		return nil, err
	}
	slices.Sort(s.found)
	return slices.Compact(s.found), nil
}
