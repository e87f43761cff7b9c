package pages

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// block is a block of commands of a page.
type block struct {
	line int // line of the page at which its commands begin
	text string
}

var fence = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// otherFence begins a block of commands in a form that commandBlocks does not find.
var otherFence = regexp.MustCompile("(?mi)^([ \t]+```sh|[ \t]*(```|~~~)[ " +
	"\t]*(bash|zsh|fish|shell|console|shell-session|terminal)|~~~sh|```[ \t]+sh)\\b.*")

// commandBlocks returns the blocks of commands of a page.
func commandBlocks(t *testing.T, path string) (blocks []block) {
	t.Helper()
	page := read(t, path)
	for _, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		blocks = append(blocks, block{strings.Count(page[:at[2]], "\n") + 1, page[at[2]:at[3]]})
	}
	return blocks
}

var inline = regexp.MustCompile("`(?:\\./)?conduit ([a-z][^`]*)`")

// namedCommands returns the words of the commands in the text of a page: `conduit dlq ls [PIPELINE]` names "dlq ls".
func namedCommands(t *testing.T, path string) (all []string) {
	t.Helper()
	for _, m := range inline.FindAllStringSubmatch(read(t, path), -1) {
		var words []string
		for _, word := range strings.Fields(m[1]) {
			if !regexp.MustCompile(`^[a-z]+$`).MatchString(word) {
				break
			}
			words = append(words, word)
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

// expectation is a command line with its expected output, and its exit code if not 0.
var expectation = regexp.MustCompile(`^(.*\S)\s+# → (.*?)(?:, exit code (\d))?(?:; .*)?$`)

var (
	runsAgent = regexp.MustCompile(`^(\S*conduit|go run \./cmd/conduit) run\b[^#]*`)
	// The suite does not run within itself; its packages and tests are only checked for existence.
	testsOne = regexp.MustCompile(
		`^(?:cd (\S+) && )?go test (\S+?)/?(?: -run (\S+?)(?:/\S+)?)?(?: -[a-z]+(?:=\S+)?)*\s*(#.*)?$`)
	testsAll = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )?go test \./\.\.\.\s*(#.*)?$`)
	checks   = regexp.MustCompile(`^(\.ci/[a-z]+)\b[^#]*(#.*)?$`)
	recipes  = regexp.MustCompile(`^just ([a-z]+)\b[^#]*(#.*)?$`)
)

// script converts a line of a block to the input of the terminal.
func script(line string) string {
	if m := expectation.FindStringSubmatch(line); m != nil {
		code := m[3]
		if code == "" {
			code = "0"
		}
		return fmt.Sprintf("prints %s %s %s", quote(m[2]), code, quote(m[1]))
	}
	if m := runsAgent.FindString(line); m != "" {
		return "start " + m
	}
	if testsAll.MatchString(line) {
		return "go list ./... >/dev/null"
	}
	if m := testsOne.FindStringSubmatch(line); m != nil {
		return fmt.Sprintf("grep -q %s ./%s/*_test.go", quote("^func "+cmp.Or(m[3], "Test")), path.Join(m[1], m[2]))
	}
	if m := checks.FindStringSubmatch(line); m != nil {
		return "test -x " + m[1]
	}
	if m := recipes.FindStringSubmatch(line); m != nil {
		return fmt.Sprintf("grep -q %s justfile", quote("^"+m[1]+"[ :]"))
	}
	if strings.Contains(line, "go test ") {
		return "echo " + quote("not a known form of go test: "+line) + "; exit 1"
	}
	return line
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func TestOtherFence(t *testing.T) {
	for text, other := range map[string]bool{
		"a\n```sh\nls\n```\n": false, "```yaml\n": false, "```\n$ ls\n```\n": false, "```\nshow\n": false,
		"```bash\n": true, "```console\n": true, "- item\n  ```sh\n": true, "~~~sh\n": true, "``` sh\n": true,
		"```Shell\n": true,
	} {
		if otherFence.MatchString(text) != other {
			t.Errorf("%q: want %v", text, other)
		}
	}
}

func TestScript(t *testing.T) {
	for line, want := range map[string]string{
		"sed -i s/a/b/ file   # nothing is checked": "sed -i s/a/b/ file   # nothing is checked",
		"./conduit run":                                   "start ./conduit run",
		"go run ./cmd/conduit run   # the demo":           "start go run ./cmd/conduit run   ",
		"tail -F out.txt            # → hello":            "prints 'hello' 0 'tail -F out.txt'",
		"conduit validate   # → f.yaml:1: …, exit code 2": "prints 'f.yaml:1: …' 2 'conduit validate'",
		"conduit ls 'x'   # → a … b; and more":            `prints 'a … b' 0 'conduit ls '\''x'\'''`,
		"go test ./spec -run TestBadFiles -update   # x":  "grep -q '^func TestBadFiles' ./spec/*_test.go",
		"go test ./cmd -run TestScripts/plan":             "grep -q '^func TestScripts' ./cmd/*_test.go",
		"go test ./a/b":                                   "grep -q '^func Test' ./a/b/*_test.go",
		"go test ./...    # everything":                   "go list ./... >/dev/null",
		"GOFLAGS=-race go test ./...    # everything":     "go list ./... >/dev/null",
		"sudo go test ./...": "echo 'not a known form of go test: sudo go test " +
			"./...'; exit 1",
		".ci/run --all   # what CI checks":              "test -x .ci/run",
		"just campaign kills":                           "grep -q '^campaign[ :]' justfile",
		"cd a/b && go test ./c -run TestD/e -kills=100": "grep -q '^func TestD' ./a/b/c/*_test.go",
	} {
		if got := script(line); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}
