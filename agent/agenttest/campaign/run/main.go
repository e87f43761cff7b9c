// The program run runs campaigns: tests that need servers, other programs, many kills, hours or a quiet machine.
//
//	run                          lists the campaigns
//	run NAME… [-- FLAGS]         runs these in full; FLAGS are flags of the tests, such as -kills 10000
//	run all                      runs every campaign in full
//	run -affected [-base REF]    runs the campaigns that a change since REF affects in short, as the gate does
//	run -affected -all           runs every campaign that a gate may run in short
//
// It runs them one after the other, keeps the output of each in a file, and exits with 1 when one fails.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	affected := flags.Bool("affected", false, "run the short form of the campaigns that a change affects")
	base := flags.String("base", "",
		"commit that the change began at; without it, the merge base with the main branch of origin")
	all := flags.Bool("all", false, "with -affected: all campaigns, whatever changed")
	only := flags.Bool("n", false, "print the names of the campaigns without running them")
	if err := flags.Parse(args); err != nil {
		return errors.New("cannot read the arguments")
	}
	names, extra := flags.Args(), []string(nil)
	if i := slices.Index(names, "--"); i >= 0 {
		names, extra = names[:i], names[i+1:]
	}
	top, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	top = strings.TrimSpace(top)
	switch {
	case *affected:
		chosen, err := choose(top, *base, *all)
		if err != nil || *only {
			return err
		}
		return runAll(top, chosen, false, extra)
	case len(names) == 0:
		for _, c := range campaigns {
			fmt.Printf("%-22s %s\n", c.Name, c.About)
		}
		return nil
	}
	var chosen []Campaign
	for _, name := range names {
		i := slices.IndexFunc(campaigns, func(c Campaign) bool { return c.Name == name })
		switch {
		case name == "all":
			chosen = append(chosen, campaigns...)
		case i < 0:
			return fmt.Errorf("there is no campaign %q; without a name, all are listed", name)
		default:
			chosen = append(chosen, campaigns[i])
		}
	}
	if *only {
		return nil
	}
	return runAll(top, chosen, true, extra)
}

// choose prints the campaigns that the gate runs, with reasons.
func choose(top, base string, all bool) ([]Campaign, error) {
	why := func(c Campaign) string { return "all were asked for" }
	if !all {
		files, since, err := changed(top, base)
		if err != nil {
			return nil, err
		}
		if since == "" {
			fmt.Println(
				"there is no commit to compare with, so all campaigns of the gate run but builds of a release: " +
					"name one with -base")
			why = withoutBase
		} else {
			packages, err := list(top)
			if err != nil {
				return nil, err
			}
			fmt.Printf("%d files changed since %.12s\n", len(files), since)
			why = NewChange(files, packages).Affects
		}
	}
	var chosen []Campaign
	for _, c := range campaigns {
		reason := why(c)
		if reason == "" && c.Always {
			reason = "after each change"
		}
		switch {
		case reason == "":
		case c.FullOnly:
			fmt.Printf("  not %-20s only in full: just campaign %s (%s)\n", c.Name, c.Name, reason)
		default:
			fmt.Printf("  %-24s %s\n", c.Name, reason)
			chosen = append(chosen, c)
		}
	}
	fmt.Printf("%d of %d campaigns run\n", len(chosen), len(campaigns))
	return chosen, nil
}

// withoutBase returns the reason why a campaign runs when the change is unknown, or "" if it does not run.
func withoutBase(c Campaign) string {
	if c.Release {
		return ""
	}
	return "there is no commit to compare with"
}

// runAll runs the chosen campaigns one after the other, and continues after a failure.
func runAll(top string, chosen []Campaign, full bool, extra []string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	logs := filepath.Join(cache, "conduit-tests", "campaigns")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return fmt.Errorf("cannot keep the output of campaigns: %w", err)
	}
	programs, err := os.MkdirTemp("", "campaigns")
	if err != nil {
		return fmt.Errorf("cannot keep the programs of campaigns: %w", err)
	}
	defer os.RemoveAll(programs)
	began, failed := time.Now(), []string(nil)
	for _, c := range chosen {
		start, log := time.Now(), filepath.Join(logs, c.Name+".log")
		err := runOne(top, programs, log, c, full, extra)
		took := time.Since(start).Round(100 * time.Millisecond)
		if err == nil {
			fmt.Printf("ok      %-24s %v\n", c.Name, took)
			continue
		}
		failed = append(failed, c.Name)
		fmt.Printf("FAILED  %-24s %v: %v\n", c.Name, took, err)
		printFailures(log)
	}
	took := time.Since(began).Round(time.Second)
	if len(failed) > 0 {
		return fmt.Errorf("campaigns: %d of %d failed in %v: %s", len(failed), len(chosen), took,
			strings.Join(failed, " "))
	}
	fmt.Printf("campaigns: %d passed in %v\n", len(chosen), took)
	return nil
}

func runOne(top, programs, log string, c Campaign, full bool, extra []string) error {
	f, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("cannot keep its output: %w", err)
	}
	defer f.Close()
	program := filepath.Join(programs, strings.ReplaceAll(c.Dir, "/", "-"))
	if _, err := os.Stat(program); err != nil {
		build := exec.Command("go", "test", "-c", "-o", program, ".")
		build.Dir, build.Stdout, build.Stderr = filepath.Join(top, filepath.FromSlash(c.Dir)), f, f
		if err := build.Run(); err != nil {
			return fmt.Errorf("cannot build its tests: %w", err)
		}
	}
	cmd := exec.Command(program, c.flags(full, extra)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(top, filepath.FromSlash(c.Dir)), f, f
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w; its output is in %s", err, log)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	switch {
	case !strings.Contains(string(text), "\n--- PASS: "):
		return fmt.Errorf("no test ran: -run %q matches none in %s", c.Run, c.Dir)
	case strings.Contains(string(text), "--- SKIP: "):
		return fmt.Errorf("a test was skipped; see %s", log)
	}
	return nil
}

// flags returns the arguments of the test program.
func (c Campaign) flags(full bool, extra []string) []string {
	limit := c.Limit
	if limit == 0 {
		limit = time.Hour
	}
	flags := []string{"-test.v", "-test.parallel=64", "-test.timeout=" + limit.String()}
	if c.Run != "" {
		flags = append(flags, "-test.run="+c.Run)
	}
	if c.Skip != "" {
		flags = append(flags, "-test.skip="+c.Skip)
	}
	if full {
		flags = append(flags, c.Full...)
	}
	return append(flags, extra...)
}

// printFailures prints the failed tests of a log, or the end of the log when no test failed.
func printFailures(log string) {
	text, err := os.ReadFile(log)
	if err != nil {
		return
	}
	lines := failures(strings.Split(string(text), "\n"))
	for _, line := range lines[:min(len(lines), 200)] {
		fmt.Println("        " + line)
	}
}

// failures returns the lines that failed and skipped tests logged, below the name of each test, and the lines of a
// panic.
func failures(lines []string) []string {
	failed := map[string]bool{}
	result := regexp.MustCompile(`^\s*--- (?:FAIL|SKIP): (\S+)`)
	for _, line := range lines {
		if m := result.FindStringSubmatch(line); m != nil {
			failed[m[1]] = true
		}
	}
	var shown []string
	heading := regexp.MustCompile(`^=== [A-Z]+\s+(\S+)`)
	show := false
	for _, line := range lines {
		switch m := heading.FindStringSubmatch(line); {
		case m != nil:
			show = failed[m[1]]
			if !show || !strings.HasPrefix(line, "=== NAME") {
				continue
			}
		case result.MatchString(line) || strings.HasPrefix(line, "panic:"):
			show = true
		case strings.HasPrefix(strings.TrimSpace(line), "--- "):
			show = false
		}
		if show {
			shown = append(shown, line)
		}
	}
	if len(shown) == 0 {
		return lines[max(0, len(lines)-40):]
	}
	return shown
}

// changed returns the files that differ from the commit at which the change began, including those that are not
// committed. It also returns that commit, or "" if there is none.
func changed(top, base string) (files []string, since string, err error) {
	if base == "" {
		for _, main := range []string{"origin/HEAD", "origin/main", "origin/master"} {
			if _, err := output(top, "git", "rev-parse", "--verify", "--quiet", main+"^{commit}"); err == nil {
				base = main
				break
			}
		}
	}
	if base == "" {
		return nil, "", nil
	}
	since, err = output(top, "git", "merge-base", base, "HEAD")
	if err != nil {
		return nil, "", err
	}
	since = strings.TrimSpace(since)
	// Renames are listed as a removed file and a new one: both are changes.
	differ, err := output(top, "git", "diff", "--name-only", "--no-renames", "-z", since)
	if err != nil {
		return nil, "", err
	}
	untracked, err := output(top, "git", "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, "", err
	}
	for file := range strings.SplitSeq(differ+untracked, "\x00") {
		if file != "" {
			files = append(files, file)
		}
	}
	return files, since, nil
}

// list returns the packages of the modules of the repository, regardless of the build tags of their files.
func list(top string) ([]Package, error) {
	const format = `{{.ImportPath}}{{"\t"}}{{join .Imports " "}}{{"\t"}}` +
		`{{join .TestImports " "}} {{join .XTestImports " "}}`
	var packages []Package
	for _, dir := range []string{".", module} {
		text, err := output(filepath.Join(top, filepath.FromSlash(dir)), "go", "list", "-f", format, "./...")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			packages = append(packages,
				Package{Dir: directory(fields[0]), Imports: directories(fields[1]), Tests: directories(fields[2])})
		}
	}
	return packages, nil
}

// repository is its module path.
const repository = "github.com/conduit-agent/conduit"

// directory returns the place of a package in the repository, or "" for a package from elsewhere.
func directory(importPath string) string {
	if importPath == repository {
		return "."
	}
	below, ok := strings.CutPrefix(importPath, repository+"/")
	if !ok {
		return ""
	}
	return path.Clean(below)
}

func directories(importPaths string) []string {
	var dirs []string
	for _, p := range strings.Fields(importPaths) {
		if dir := directory(p); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = io.Writer(&said)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run %s %s: %w\n%s", name, strings.Join(args, " "), err, said.String())
	}
	return string(out), nil
}
