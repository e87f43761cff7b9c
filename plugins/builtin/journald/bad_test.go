package journald_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/journald"
	"github.com/conduit-agent/conduit/plugins/plugintest"
)

// fakeJournal installs a journalctl that prints first when it reads from the beginning, and behind when it reads after
// a cursor.
func fakeJournal(t *testing.T, first, behind string) {
	dir := t.TempDir()
	for name, content := range map[string]string{"first": first, "behind": behind, "journalctl": `#!/bin/sh
case "$*" in *--after-cursor=s=a\;i=2*) cat "$0.d/behind";; *) cat "$0.d/first";; esac
exec sleep 1000
`} {
		path := filepath.Join(dir, "journalctl.d", name)
		if name == "journalctl" {
			path = filepath.Join(dir, name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func printed(cursor, fields, message string) string {
	return "__CURSOR=s=a;i=" + cursor + "\n__REALTIME_TIMESTAMP=1\n" + fields + "MESSAGE=" + message + "\n\n"
}

func binaryField(name string, length uint64, value string) string {
	return name + "\n" + string(binary.LittleEndian.AppendUint64(nil, length)) + value
}

// A damaged entry and a field that is too large are skipped; unusual fields cause no error.
func TestBadItems(t *testing.T) {
	large := strings.Repeat("x", 16<<20+1)
	for name, test := range map[string]struct{ fields, want, skipped string }{
		"a length that is none":  {binaryField("A", 1<<40, "x\n"), "one three", "entry s=a;i=2: field"},
		"a field without an end": {binaryField("A", 1, "xyz\n"), "one three", "entry s=a;i=2: field"},
		"a field that is large": {binaryField("A", uint64(len(large)), large+"\n"), "one two three",
			"field A of entry s=a;i=2: it has more than 16 MiB"},
		"fields that are no UTF-8": {"B=\xff\n\xff=x\n_SYSTEMD_UNIT=\xff\n", "one two three", ""},
		"a time that is none":      {"__REALTIME_TIMESTAMP=x\n", "one two three", ""},
	} {
		t.Run(name, func(t *testing.T) {
			third := printed("3", "", "three")
			fakeJournal(t, printed("1", "", "one")+printed("2", test.fields, "two")+third, third)
			s := plugintest.OpenSource(t, &journald.Source{}, map[string]string{}, nil)
			want(t, s, strings.Fields(test.want)...)
			var skipped string
			for _, one := range s.Progress().Skipped {
				skipped = one.Of + ": " + one.Error
			}
			if !strings.HasPrefix(skipped, test.skipped) || (skipped == "") != (test.skipped == "") {
				t.Errorf("left out is %.200q, want %q", skipped, test.skipped)
			}
		})
	}
}
