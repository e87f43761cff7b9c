package promises

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	_ "github.com/mattn/go-sqlite3" // for sql.Open
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
)

// service [NAME=VALUE...] starts the agent as systemd does, with the packaged unit and settings, in etc and var. Its
// notifications to systemd go to the file notified, and agent.log stands for the journal.
func (h *host) service(ts *testscript.TestScript, _ bool, args []string) {
	moved := strings.NewReplacer("/usr/bin/", "", "/etc/conduit", ts.MkAbs("etc"), "/var/lib/conduit", ts.MkAbs("var"),
		"/run/conduit", ts.Getenv("TMPDIR"))
	settings, err := os.ReadFile(filepath.Join(h.shipped, "conduit.yaml"))
	ts.Check(err)
	// The administrator adds the directory that the pipelines read and write.
	allowed := strings.Replace(moved.Replace(string(settings)), "allowed-paths: ", "allowed-paths: "+ts.MkAbs(".")+",",
		1)
	ts.Check(os.WriteFile(ts.MkAbs("etc/conduit.yaml"), []byte(allowed), 0o644))
	unit, err := os.ReadFile(filepath.Join(h.shipped, "conduit.service"))
	ts.Check(err)
	for _, before := range regexp.MustCompile(`(?m)^ExecStartPre=(.*)$`).FindAllSubmatch(unit, -1) {
		words := strings.Fields(moved.Replace(string(before[1])))
		ts.Check(ts.Exec(words[0], words[1:]...))
	}
	command := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindSubmatch(unit)[1]
	log, err := os.Create(ts.MkAbs("agent.log"))
	ts.Check(err)
	defer log.Close()
	var stat syscall.Stat_t
	ts.Check(syscall.Fstat(int(log.Fd()), &stat))
	journal := fmt.Sprintf("JOURNAL_STREAM=%d:%d", stat.Dev, stat.Ino)
	h.run(ts, strings.Fields(moved.Replace(string(command))), append(args, journal, "NOTIFY_SOCKET="+notifySocket(ts)))
}

// notifySocket returns the path of a socket whose datagrams are appended to the file
// notified, each on a line, its assignments separated by spaces.
func notifySocket(ts *testscript.TestScript) string {
	path := filepath.Join(ts.Getenv("TMPDIR"), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	ts.Check(err)
	file, err := os.Create(ts.MkAbs("notified"))
	ts.Check(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 4096); ; {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			fmt.Fprintln(file, strings.ReplaceAll(string(buf[:n]), "\n", " "))
		}
	}()
	ts.Defer(func() { conn.Close(); <-done; file.Close() })
	return path
}

// notified is like logged, for the notifications to systemd.
func notified(ts *testscript.TestScript, neg bool, args []string) {
	matches(ts, neg, args, func() string { return ts.ReadFile("notified") })
}

// silent STORE RECORDS checks that at most one watchdog notification, already in flight, arrives while the store cannot
// be written to and the pipeline bystander, which keeps running, writes RECORDS records.
func silent(ts *testscript.TestScript, _ bool, args []string) {
	signs := func() int { return strings.Count(ts.ReadFile("notified"), "WATCHDOG=1") }
	written := func() int { return len(linesOf(ts, "bystander.txt")) }
	db, err := sql.Open("sqlite3", "file:"+ts.MkAbs(args[0])+"?_txlock=immediate&_busy_timeout=5000")
	ts.Check(err)
	defer db.Close()
	tx, err := db.Begin()
	ts.Check(err)
	before, enough := signs(), written()+atoi(ts, args[1])
	if !script.InTime(func() bool { return written() >= enough }) {
		ts.Fatalf("bystander has written %d records, want %d", written(), enough)
	}
	if n := signs() - before; n > 1 {
		ts.Fatalf("%d signs of life", n)
	}
	ts.Check(tx.Rollback())
}
