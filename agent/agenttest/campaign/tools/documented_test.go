package tools_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// asCurl, when set, turns the test binary into a curl with the options that the documentation uses. Without buffering
// it exits after the first line of the answer.
const asCurl = "CONDUIT_TEST_CURL"

func curl(args []string) int {
	method, url, body, unbuffered := "GET", "", "", false
	headers := http.Header{}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "-N":
			unbuffered = true
			continue
		case arg[0] != '-':
			url = arg
			continue
		}
		switch value := args[0]; arg {
		case "-X":
			method = value
		case "-d":
			method, body = "POST", value
		case "-H":
			name, content, _ := strings.Cut(value, ": ")
			headers.Set(name, content)
		default:
			panic("unknown option " + arg)
		}
		args = args[1:]
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header = headers
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	var text []byte
	if unbuffered {
		text, err = lines.ReadBytes('\n')
	} else {
		text, err = io.ReadAll(lines)
	}
	fmt.Printf("%s %s: %d %s\n", method, r.URL.Path, response.StatusCode, text)
	if err != nil || response.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}

// documented returns the first shell script of a page after the text.
func documented(t *testing.T, page, behind string) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), behind)
	_, script, _ := strings.Cut(section, "```sh\n")
	script, _, found := strings.Cut(script, "```")
	if !found {
		t.Fatalf("%s has no script behind %q", page, behind)
	}
	return script
}

// The session in the documentation works as written.
func TestDocumentedSession(t *testing.T) {
	load.Parallel(t, load.Agent)
	session := documented(t, "../../../../api/README.md", "")
	if !strings.Contains(session, "api=http://localhost:8080") {
		t.Fatal("there is no session in the documentation")
	}
	w := agenttest.StartWeb(t, "")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shim := fmt.Sprintf("#!/bin/sh\nGORACE=atexit_sleep_ms=0 %s=1 exec %s \"$@\"\n", asCurl, exe)
	if err := os.WriteFile(w.Path("curl"), []byte(shim), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-e", "-c", strings.Replace(session, "http://localhost:8080", w.API.URL, 1))
	cmd.Env = append(os.Environ(), "PATH="+w.Dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), ": 200 "); n != strings.Count(session, "curl ") {
		t.Errorf("%d commands of %d answered\n%s", n, strings.Count(session, "curl "), out)
	}
	for _, want := range []string{`/inspect: 200 {"result":{"position":`, `"phase": "running"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the session does not show %s\n%s", want, out)
		}
	}
	if got := w.Do("GET", "/v1/pipelines", ""); strings.TrimSpace(got.Body) != "[]" {
		t.Errorf("left behind: %s", got.Body)
	}
}

// TestDocumentedDeployment runs the documented deployment script.
func TestDocumentedDeployment(t *testing.T) {
	load.Parallel(t, load.Agent)
	script := documented(t, "../../../../cmd/conduit/docs/DEPLOY.md", "")
	d := agenttest.DeskIn(t, "", agenttest.ConfirmSoon)
	script = strings.NewReplacer("/etc/conduit/pipelines", d.Path("pipelines"), "/var/lib/conduit",
		d.Dir).Replace(script)
	deploy := func(content string) (string, error) {
		d.Must(os.WriteFile(d.Path("orders.yaml"), []byte(content), 0o600))
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Dir = d.Dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	if out, err := deploy(d.Generated("orders", 1)); err != nil {
		t.Errorf("a good file: %v\n%s", err, out)
	}
	d.Runs("orders", 1)
	if out, err := deploy(agenttest.Generated(d.Path("missing"), "orders", 2, "")); err == nil ||
		!strings.Contains(out, "no such file") {
		t.Errorf("a file that cannot run: %v\n%s", err, out)
	}
	if out, err := deploy("pipelines: ["); err == nil || !strings.Contains(out, `"line": 2`) {
		t.Errorf("a broken file: %v\n%s", err, out)
	}
}
