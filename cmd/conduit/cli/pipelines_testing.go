package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// offlineTimeout is how long a processor may take in a test or a dry run.
const offlineTimeout = time.Minute

func pipelinesTestCommand(p *Program) *ffcli.Command {
	return checkCommand(p, ffcli.Command{
		Name:      "test",
		ShortHelp: "Run the tests of pipeline files.",
		LongHelp: `Runs NAME.test.yaml, which contains the tests of NAME.yaml: records that a source reads, and the
records that a destination or the dead-letter queue must get. Only processors run, and time is virtual.
Errors that validate reports for NAME.yaml are failures too; tests of such a file do not run.
PATH is a test file, a pipeline file or a directory; the default is the setting pipelines.path.
The last lines list processors and conditions that no test covers. The exit code is 2 when a test fails, or
when PATH has neither tests nor pipeline files. Directories whose pipelines have no tests are no failure.

Example:
  conduit pipelines test pipelines/orders.yaml`,
	}, func(ctx context.Context, c config.Config, paths []string) (checkReport, error) {
		return testPipelines(ctx, p, c, paths)
	})
}

// testReport is the result of tests.
type testReport struct {
	Files    []testFileReport  `json:"files"`
	Passed   int               `json:"passed"`
	Failed   int               `json:"failed"`
	Coverage []dryrun.Coverage `json:"coverage"`
	Untested []string          `json:"untested,omitempty"` // pipeline files without tests, if there are no tests at all
	NotRead  []string          `json:"notRead,omitempty"`  // test files in subdirectories
}

type testFileReport struct {
	Path     string          `json:"path"`
	Error    string          `json:"error,omitempty"`    // why no test in it could run
	Problems []spec.Problem  `json:"problems,omitempty"` // errors of it or of the pipeline file; no test ran
	Tests    []dryrun.Result `json:"tests"`
}

func testPipelines(ctx context.Context, p *Program, c config.Config, paths []string) (*testReport, error) {
	r := &testReport{Files: []testFileReport{}}
	files, err := r.testFiles(c, paths)
	if err != nil {
		return nil, err
	}
	runner := &dryrun.Runner{Registry: processorRegistry(ctx, p, c), Timeout: offlineTimeout}
	for _, path := range files {
		r.add(runTestFile(ctx, p, c, runner, path))
	}
	r.Coverage = runner.Coverage()
	return r, nil
}

func (r *testReport) failed() bool { return r.Failed > 0 }

// processorRegistry returns the processors that an agent with these settings would have.
func processorRegistry(ctx context.Context, p *Program, c config.Config) *processor.Registry {
	return p.Catalog(c, slog.New(slog.DiscardHandler)).KnownProcessors(ctx)
}

// testFiles returns the test files at paths. It adds untested pipelines, and tests in subdirectories, to the report.
func (r *testReport) testFiles(c config.Config, paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		directory, err := directoryAt(c, path)
		if err != nil {
			return nil, err
		}
		found, err := testFilesAt(path, directory)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
		if directory {
			r.NotRead = append(r.NotRead, filesBelow(path, watch.IsTestFile, testsField)...)
		}
	}
	slices.Sort(files)
	files = slices.Compact(files)
	slices.Sort(r.NotRead)
	r.NotRead = slices.DeleteFunc(slices.Compact(r.NotRead), func(path string) bool {
		return slices.Contains(files, path)
	})
	if len(files) > 0 {
		return files, nil
	}
	var err error
	if r.Untested, err = pipelineFilesIn(paths); err != nil {
		return nil, err
	}
	if len(r.Untested) == 0 {
		where := ""
		if len(r.NotRead) > 0 {
			where = "; subdirectories are not read, and this one has tests: " + filepath.Dir(r.NotRead[0])
		}
		return nil, Invalidf("there are neither tests nor pipeline files in %s: name the directory of pipeline files%s",
			strings.Join(paths, ", "), where)
	}
	return nil, nil
}

// pipelineFilesIn returns the pipeline files in directories.
func pipelineFilesIn(directories []string) (files []string, err error) {
	for _, dir := range directories {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("cannot read pipeline files: %w", err)
		}
		for _, e := range entries {
			if !e.IsDir() && watch.IsPipelineFile(e.Name()) {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	return files, nil
}

// exampleTest is the content of a test file to begin with.
const exampleTest = `tests:
  - name: a record passes
    input:
      - record: {payload: {after: {id: 1}}}
    expect:
      - count: 1
        contains: [{payload: {after: {id: 1}}}]
`

func testFilesAt(path string, isDir bool) ([]string, error) {
	if _, ok := dryrun.PipelineFile(path); ok {
		return []string{path}, nil
	}
	if !isDir {
		ext := filepath.Ext(path)
		tests := strings.TrimSuffix(path, ext) + ".test" + ext
		if _, err := os.Stat(tests); err != nil {
			if _, err := readFile(path); err != nil {
				return nil, err
			}
			return nil, Invalidf("%s has no tests: write them to %s, such as:\n\n%s", path, tests, exampleTest)
		}
		return []string{tests}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read tests: %w", err)
	}
	var files []string
	for _, e := range entries {
		if _, ok := dryrun.PipelineFile(e.Name()); ok && !e.IsDir() {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}

func runTestFile(ctx context.Context, p *Program, c config.Config, runner *dryrun.Runner, path string) testFileReport {
	r := testFileReport{Path: path, Tests: []dryrun.Result{}}
	data, err := watch.ReadNamed(path)
	if err != nil {
		r.Error = fmt.Sprintf("cannot read tests: %v", err)
		return r
	}
	tests, problems := dryrun.Parse(path, data)
	tested, _ := dryrun.PipelineFile(path)
	content, err := readFile(tested)
	if err != nil {
		r.Error = err.Error()
	} else {
		problems = append(problems, errorsOf(ctx, p, c, pipelineFile{path: tested, content: content})...)
	}
	r.Problems = problems
	if r.Error != "" || len(r.Problems) > 0 {
		return r
	}
	pipelines := p.Parser().File(tested, content).Pipelines
	for i := range tests.Tests {
		r.Tests = append(r.Tests, runner.Run(ctx, tests, &tests.Tests[i], pipelines))
	}
	return r
}

// errorsOf returns the errors that validate reports for a pipeline file.
func errorsOf(ctx context.Context, p *Program, c config.Config, file pipelineFile) []spec.Problem {
	checked := report{program: p, plugins: p.Catalog(c, slog.New(slog.DiscardHandler))}
	checked.check(ctx, file)
	return slices.DeleteFunc(checked.Files[0].Problems, func(problem spec.Problem) bool {
		return problem.Severity != spec.SeverityError
	})
}

func (r *testReport) add(f testFileReport) {
	r.Files = append(r.Files, f)
	if f.Error != "" || len(f.Problems) > 0 {
		r.Failed++
	}
	for _, t := range f.Tests {
		if t.Passed {
			r.Passed++
		} else {
			r.Failed++
		}
	}
}

// print writes the report for people.
func (r *testReport) print(p *Program) {
	for _, f := range r.Files {
		if f.Error != "" {
			fmt.Fprintf(p.Stdout, "%s: %s\n", terminal.Line(f.Path), f.Error)
		}
		p.PrintProblems(f.Problems)
		for _, t := range f.Tests {
			for _, failure := range t.Failures {
				fmt.Fprintf(p.Stdout, "%s:%d: %s: %s\n", terminal.Line(f.Path), t.Line, t.Name,
					strings.TrimPrefix(failure.Of+": "+failure.Message, ": "))
				printDiff(p, failure.Diff)
			}
		}
	}
	for _, c := range r.Coverage {
		switch {
		case c.Processed == 0:
			fmt.Fprintf(p.Stdout, "not covered: no record reaches processor %s\n", c.Processor)
		case c.HasCondition && c.Skipped == 0:
			fmt.Fprintf(p.Stdout, "not covered: the condition of processor %s is never false\n", c.Processor)
		}
	}
	if len(r.Untested) > 0 {
		first := r.Untested[0]
		ext := filepath.Ext(first)
		fmt.Fprintf(p.Stdout, "no tests for %s: write those of %s to %s, such as:\n\n%s\n",
			terminal.Count(len(r.Untested), "pipeline file"), terminal.Line(first),
			terminal.Line(strings.TrimSuffix(first, ext)+".test"+ext), exampleTest)
	}
	fmt.Fprintf(p.Stdout, "%s: %d passed, %d failed; %s\n", terminal.Count(r.Passed+r.Failed, "test"), r.Passed,
		r.Failed, coverageWords(r.Coverage))
	printBelow(p, "test", r.NotRead)
}

func printDiff(p *Program, lines []string) {
	for _, line := range lines {
		color := ""
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			color = symbolColors[line[:1]]
		}
		fmt.Fprintln(p.Stdout, "    "+p.Paint(line, color))
	}
}

// coverageWords returns how many of the processors, and of the outcomes of conditions, the tests covered.
func coverageWords(all []dryrun.Coverage) string {
	processors, conditions, outcomes := 0, 0, 0
	for _, c := range all {
		if c.Processed > 0 {
			processors++
		}
		if c.HasCondition {
			conditions += 2
			outcomes += min(1, int(c.Processed)) + min(1, int(c.Skipped))
		}
	}
	return fmt.Sprintf("%d of %s and %d of %s of conditions covered", processors, terminal.Count(len(all), "processor"),
		outcomes, terminal.Count(conditions, "outcome"))
}
