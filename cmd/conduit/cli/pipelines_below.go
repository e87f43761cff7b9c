package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// Bounds of the search for files in subdirectories.
const (
	maxEntriesBelow = 10_000
	maxHeadBelow    = 64 << 10 // bytes of a file in which its first field must stand
	maxNamedBelow   = 3        // files in a message
)

// Fields that distinguish pipeline files and test files from other YAML files.
var (
	pipelinesField = regexp.MustCompile(`(?m)^pipelines:`)
	testsField     = regexp.MustCompile(`(?m)^tests:`)
)

// filesBelow returns the files in subdirectories of dir, hidden ones excepted, whose name satisfies named and whose
// content has field. Commands and the agent do not read them.
func filesBelow(dir string, named func(name string) bool, field *regexp.Regexp) (paths []string) {
	entries := 0
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if entries++; entries > maxEntriesBelow {
			return fs.SkipAll
		}
		switch hidden := strings.HasPrefix(e.Name(), ".") && path != root; {
		case err != nil && e.IsDir(), hidden && e.IsDir():
			return fs.SkipDir
		case hidden, !e.Type().IsRegular(), filepath.Dir(path) == filepath.Clean(root), !named(e.Name()):
		case contains(path, field):
			if below, err := filepath.Rel(root, path); err == nil {
				paths = append(paths, filepath.Join(dir, below))
			}
		}
		return nil
	})
	return paths
}

// contains reports whether field is in the first bytes of the file at path.
func contains(path string, field *regexp.Regexp) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, maxHeadBelow)
	n, err := io.ReadFull(f, head)
	return (err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && field.Match(head[:n])
}

// printBelow notes files in subdirectories, and how the command reads them, or, for an empty command, the agent.
func printBelow(p *Program, command string, paths []string) {
	if len(paths) == 0 {
		return
	}
	what, remedy := "1 file in a subdirectory is not read", "move it into the directory itself"
	if n := len(paths); n > 1 {
		what, remedy = fmt.Sprintf("%d files in subdirectories are not read", n), "move them into the directory itself"
	}
	if command != "" {
		var directories []string
		for _, path := range paths {
			directories = append(directories, filepath.Dir(path))
		}
		slices.Sort(directories)
		remedy = "name each directory: conduit pipelines " + command + " " + some(slices.Compact(directories), " ")
	}
	fmt.Fprintf(p.Stdout, "%s: %s; %s\n", what, some(paths, ", "), remedy)
}

// some joins the first of all texts.
func some(all []string, separator string) string {
	var b strings.Builder
	for i, s := range all[:min(len(all), maxNamedBelow)] {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(terminal.Line(s))
	}
	if len(all) > maxNamedBelow {
		b.WriteString(separator + "…")
	}
	return b.String()
}
