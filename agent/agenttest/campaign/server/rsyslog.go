package server

import (
	"context"
	"fmt"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Rsyslog is a syslog server that writes the text of each message it receives over TCP as a line
// to a file.
type Rsyslog struct {
	*Process
	Addr   string
	Output string // path of the file
}

// StartRsyslog starts a server with additional lines of configuration.
func StartRsyslog(t testing.TB, more string) *Rsyslog {
	t.Helper()
	path := Need(t, "rsyslogd", "rsyslog", "/usr/sbin")
	dir, port := Dir(t), network.FreePort(t)
	r := &Rsyslog{Addr: fmt.Sprintf("127.0.0.1:%d", port), Output: filepath.Join(dir, "out")}
	config := fmt.Sprintf(`global(workDirectory=%q maxMessageSize="64k")
module(load="imtcp")
input(type="imtcp" address="127.0.0.1" port="%d")
template(name="text" type="string" string="%%msg:::drop-last-lf%%\n")
if $inputname == "imtcp" then action(type="omfile" file=%q template="text" asyncWriting="off")
%s
`, dir, port, r.Output, more)
	file := filepath.Join(dir, "rsyslog.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Process = &Process{Path: path, Args: []string{"-n", "-f", file, "-i", filepath.Join(dir, "pid")}, Dir: dir,
		Ready: func(ctx context.Context) error {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", r.Addr)
			if err == nil {
				err = c.Close()
			}
			return err
		}}
	r.Launch(t)
	return r
}
