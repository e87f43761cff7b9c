package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Package is a Go package of the repository.
type Package struct {
	Dir     string   // from the top of the repository, with slashes; "." is the top
	Imports []string // directories of the packages of the repository that it imports outside of tests
	Tests   []string // directories of the packages that only its tests import
}

// Change is a set of changed files and the packages that they affect.
type Change struct {
	files    []string
	packages map[string]Package
	causes   map[string]string // by the directory of an affected package: the file that affects it
}

// NewChange returns the change of files that were modified, added or removed. Their names are relative to the top of
// the repository.
func NewChange(files []string, packages []Package) *Change {
	c := &Change{files: files, packages: map[string]Package{}, causes: map[string]string{}}
	importers := map[string][]string{}
	for _, p := range packages {
		c.packages[p.Dir] = p
		for _, dir := range p.Imports {
			importers[dir] = append(importers[dir], p.Dir)
		}
	}
	for _, file := range files {
		if file == "go.mod" || file == "go.sum" {
			for dir := range c.packages {
				c.note(dir, file)
			}
			continue
		}
		next := c.home(file)
		for len(next) > 0 {
			dir := next[0]
			next = next[1:]
			if c.note(dir, file) {
				next = append(next, importers[dir]...)
			}
		}
	}
	return c
}

// note records that the file affects the package in dir, and reports whether no file was known to affect it before.
func (c *Change) note(dir, file string) bool {
	if _, ok := c.causes[dir]; ok {
		return false
	}
	c.causes[dir] = file
	return true
}

// home returns the package that a change of the file affects: the package in its directory, or the nearest one above,
// which may embed or test it. Tests and documents affect no other package.
func (c *Change) home(file string) []string {
	if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".md") || strings.Contains(file, "testdata/") {
		return nil
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if _, ok := c.packages[dir]; ok {
			return []string{dir}
		}
		if dir == "." {
			return nil
		}
	}
}

// Affects returns the reason why the change affects the campaign, or "" if it does not.
func (c *Change) Affects(campaign Campaign) string {
	for _, subject := range campaign.Subjects {
		for _, dir := range c.matching(subject) {
			if file := c.causes[dir]; path.Dir(file) == dir {
				return file + " changed"
			} else if file != "" {
				return fmt.Sprintf("%s changed, on which %s depends", file, dir)
			}
		}
		for _, file := range c.files {
			if matches(subject, file) {
				return file + " changed"
			}
		}
	}
	for _, dir := range c.harness(campaign.Dir) {
		for _, file := range c.files {
			if path.Dir(file) == dir || strings.HasPrefix(file, dir+"/testdata/") {
				return file + " changed, which is part of the campaign"
			}
		}
	}
	return ""
}

// matching returns the packages that match a subject, sorted.
func (c *Change) matching(subject string) []string {
	var dirs []string
	for dir := range c.packages {
		if matches(subject, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// matches reports whether a subject names a package or file. A subject is a name or a pattern of path.Match. With
// "/..." at its end it also names everything below, and with "**/" at its beginning it applies in any directory.
func matches(subject, name string) bool {
	if base, ok := strings.CutPrefix(subject, "**/"); ok {
		subject, name = base, path.Base(name)
	}
	if above, ok := strings.CutSuffix(subject, "/..."); ok {
		return name == above || strings.HasPrefix(name, above+"/")
	}
	ok, _ := path.Match(subject, name) // patterns are checked by a test
	return ok
}

// harness returns the package of a campaign and those of the module of campaigns that it imports.
func (c *Change) harness(dir string) []string {
	dirs := []string{dir}
	for i := 0; i < len(dirs); i++ {
		p := c.packages[dirs[i]]
		for _, imported := range slices.Concat(p.Imports, p.Tests) {
			if matches(module+"/...", imported) && !slices.Contains(dirs, imported) {
				dirs = append(dirs, imported)
			}
		}
	}
	return dirs
}
