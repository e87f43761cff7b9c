package builtin_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
)

func TestCheckAddress(t *testing.T) {
	for _, text := range []string{"", ":514", "localhost", "localhost:5514", "db-1.example.com:3306", "a_b:1",
		"127.0.0.1:1",
		"[::1]:514", "::1", "[fe80::1%eth0]:80", "fe80::1%eth0", "größe.example:1", "host:syslog", "[::ffff:1.2.3.4]:1",
		"h."} {
		if err := common.CheckAddress("address", text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"u:hunter2@host:1", "hunter2@host", "hunter2/x:1", "hunter2#x", "a hunter2:1",
		"hunter2%41:1",
		"tcp(hunter2:1)", "hunter2?x:1", "h:1,hunter2", "hunter2\n", "mysql://hunter2:1", "[hunter2]:1", "h:1:hunter2",
		"hunter2:1/d", "hunter2\\x:1", "unix:/hunter2"} {
		err := common.CheckAddress("address", text)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want an error without the text", text, err)
		}
	}
}
