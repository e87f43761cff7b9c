package kill_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

const (
	logRecords     = 1_000_000
	logFiles       = 10
	journalRecords = 50_000
)

// BenchmarkLogs reads lines from several files, a command and a connection with an agent, and with bare loops.
func BenchmarkLogs(b *testing.B) {
	runBenchmarks(b, logRecords, []benchmark{{"scanner", benchScanFiles}, {"files-to-file", benchFiles},
		{"pipe", benchPipe}, {"exec-to-file", benchExec},
		{"connection", benchConnection}, {"syslog-to-file", benchSyslog}})
}

// BenchmarkJournald reads a journal with an agent and with journalctl.
func BenchmarkJournald(b *testing.B) {
	runBenchmarks(b, journalRecords, []benchmark{{"journalctl", benchJournalctl}, {"journald-to-file", benchJournald}})
}

// writeLogs makes the files of a benchmark.
func writeLogs(b *testing.B, dir string) {
	b.Helper()
	for i := range logFiles {
		if err := os.WriteFile(fmt.Sprintf("%s/%d.log", dir, i),
			[]byte(strings.Repeat(httpLine+"\n", logRecords/logFiles)), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// scan reads n lines in sequence.
func scan(b *testing.B, r io.Reader) (n int) {
	b.Helper()
	s := bufio.NewScanner(bufio.NewReaderSize(r, 256<<10))
	for s.Scan() {
		n++
	}
	if s.Err() != nil {
		b.Fatal(s.Err())
	}
	return n
}

func benchScanFiles(b *testing.B) {
	b.StopTimer()
	dir, n := b.TempDir(), 0
	writeLogs(b, dir)
	b.StartTimer()
	names, _ := filepath.Glob(dir + "/*.log")
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		n += scan(b, f)
		_ = f.Close()
	}
	if n != logRecords {
		b.Errorf("%d lines were read", n)
	}
}

// logsToFile moves the records of a source into a file with an agent.
func logsToFile(b *testing.B, dir, source string, n int) {
	b.Helper()
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: %s}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out}}
`, source, dir), lines(dir+"/out", n))
}

func benchFiles(b *testing.B) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	writeLogs(b, dir)
	logsToFile(b, dir, fmt.Sprintf("builtin:file, settings: {path: '%s/*.log'}", dir), logRecords)
}

func benchPipe(b *testing.B) {
	b.StopTimer()
	dir := b.TempDir()
	writeLines(b, dir, logRecords)
	b.StartTimer()
	cmd := exec.Command("cat", dir+"/in")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	if n := scan(b, out); n != logRecords || cmd.Wait() != nil {
		b.Errorf("%d lines were read", n)
	}
}

func benchExec(b *testing.B) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	writeLines(b, dir, logRecords)
	logsToFile(b, dir, fmt.Sprintf(`builtin:exec, settings: {command: '["cat", "%s/in"]'}`, dir), logRecords)
}

// sendLog sends all messages over one connection, framed by line ends.
func sendLog(b *testing.B, addr string) {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return
	}
	w := bufio.NewWriterSize(c, 64<<10)
	for range logRecords {
		_, _ = w.WriteString("<13>Oct 11 22:14:15 host app: " + httpLine + "\n")
	}
	if err := errors.Join(w.Flush(), c.Close()); err != nil {
		b.Error(err)
	}
}

func benchConnection(b *testing.B) {
	b.StopTimer()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	b.StartTimer()
	go sendLog(b, l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if n := scan(b, c); n != logRecords {
		b.Errorf("%d lines were read", n)
	}
}

func benchSyslog(b *testing.B) {
	b.StopTimer()
	dir, addr := agenttest.NewDir(b), fmt.Sprintf("127.0.0.1:%d", network.FreePort(b))
	writePipeline(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:syslog, settings: {address: "%s", protocols: tcp}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out}}
`, addr, dir))
	stop, err := kill.StartAgent(dir)
	if err != nil {
		b.Fatal(err)
	}
	wait.For(b, "the source to listen", func() bool { return listens(addr) })
	b.StartTimer()
	go sendLog(b, addr)
	wait.For(b, "all records", lines(dir+"/out", logRecords))
	b.StopTimer()
	use(stop())
}

func fillJournal(b *testing.B) *server.Journal {
	b.Helper()
	j := server.NewJournal(b)
	messages := make([]string, journalRecords)
	for i := range messages {
		messages[i] = httpLine
	}
	if err := j.Append("OF=bench\n", messages...); err != nil {
		b.Fatal(err)
	}
	return j
}

func benchJournalctl(b *testing.B) {
	b.StopTimer()
	j := fillJournal(b)
	b.StartTimer()
	if out, err := exec.Command("journalctl", "--directory="+j.Dir, "--output=json", "--all").Output(); err != nil ||
		strings.Count(string(out), "\n") != journalRecords {
		b.Fatalf("%v, %d bytes", err, len(out))
	}
}

func benchJournald(b *testing.B) {
	b.StopTimer()
	j, dir := fillJournal(b), agenttest.NewDir(b)
	logsToFile(b, dir, fmt.Sprintf("builtin:journald, settings: {directory: %s}", j.Dir), journalRecords)
}
