package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
)

// TestMySQLHistory compares positions with the transactions that MySQL has executed and purged.
func TestMySQLHistory(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, c := range []struct{ set, in, executed, purged, want string }{
		{a + ":1-5", a + ":6", a + ":1-9", a + ":1-5", ""},
		{a + ":1-5", "", a + ":1-9", a + ":1-6", "the server has purged transactions " + a + ":6,"},
		{a + ":1-5", "", a + ":1-4", "", "the server lacks transactions " + a + ":5"},
		{a + ":1-5", a + ":6", a + ":1-5," + b + ":1", "", "the server lacks transactions " + a + ":6"},
		{a + ":1-5", "", a + ":1-5," + b + ":1-7", b + ":1-3", "the server has purged transactions " + b + ":1-3"},
		{"", "", a + ":1-3", "", ""},
	} {
		err := mysql.Compare(c.set, c.in, c.executed, c.purged)
		if (err == nil) != (c.want == "") ||
			err != nil && (!strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "new snapshot is needed")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestMySQLVariables checks that the error for a wrong server variable names it.
func TestMySQLVariables(t *testing.T) {
	good := func() map[string]string {
		return map[string]string{"version": "8.4.0", "log_bin": "ON", "binlog_format": "ROW",
			"binlog_row_image":         "FULL",
			"binlog_row_value_options": "", "gtid_mode": "ON"}
	}
	if err := mysql.Check(good()); err != nil {
		t.Error(err)
	}
	for name, value := range map[string]string{"log_bin": "OFF", "binlog_format": "STATEMENT",
		"binlog_row_image": "MINIMAL", "binlog_row_value_options": "PARTIAL_JSON"} {
		v := good()
		v[name] = value
		if err := mysql.Check(v); err == nil || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s = %s: %v", name, value, err)
		}
	}
}
