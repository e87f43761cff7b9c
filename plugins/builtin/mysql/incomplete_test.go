package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

// TestIncompleteRows reads changes of sessions that set binlog_row_image, which log only some columns. Records of new
// rows and all keys must be complete.
func TestIncompleteRows(t *testing.T) {
	t.Parallel()
	none := any(binlog.Absent)
	for name, c := range map[string]struct {
		kind          binlog.Kind
		before, after []any
		want          []string
		fails         string // the missing column
	}{
		"MINIMAL update": {binlog.Update, []any{1, none, none, none},
			[]any{none, "x", none, none}, []string{`update {"id":1} {"id":1,"text":"x"}`}, ""},
		"MINIMAL new key": {binlog.Update, []any{1, none, none, none}, []any{2, none, none, none}, nil, "text"},
		"MINIMAL insert":  {binlog.Insert, nil, []any{1, none, "y", none}, nil, "text"},
		"MINIMAL delete":  {binlog.Delete, []any{1, none, none, none}, nil, []string{`delete {"id":1} null`}, ""},
		"NOBLOB update": {binlog.Update, []any{1, "x", none, 2},
			[]any{1, "y", none, 2}, []string{`update {"id":1} {"id":1,"text":"y"}`}, ""},
		"NOBLOB new key": {binlog.Update, []any{1, "x", none, 2}, []any{2, "x", none, 3}, nil, "big"},
		"FULL new key": {binlog.Update, []any{1, "x", nil, 2}, []any{2, "x", nil, 3},
			[]string{`delete {"id":1} null`, `create {"id":2} {"big":null,"id":2,"text":"x"}`}, ""},
		"a generated column lacks": {binlog.Insert, nil, []any{1, "x", "y", none},
			[]string{`create {"id":1} {"big":"y","id":1,"text":"x"}`}, ""},
		"the key lacks": {binlog.Delete, []any{none, "x", "y", 2}, nil, nil, "id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &relation{keys: []int{0}, end: -1, before: c.before,
				after: c.after, Table: &binlog.Table{Schema: "shop", Name: "docs",
					Columns: []binlog.Column{{Name: "id"}, {Name: "text"}, {Name: "big"}, {Name: "made", Skip: true}}}}
			st := &stream{Source: &Source{}}
			err := st.row(r, c.kind)
			if c.fails != "" {
				for _, words := range []string{"shop.docs", "column " + c.fails, "binlog_row_image = FULL", "add " +
					"shop.docs/1"} {
					if err == nil || !strings.Contains(err.Error(), words) {
						t.Errorf("got %v, which does not say %q", err, words)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, rec := range st.records {
				key, _ := rec.Key.MarshalJSON()
				after, _ := rec.After.MarshalJSON()
				got = append(got, fmt.Sprintf("%s %s %s", rec.Operation, key, after))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestVersionedRows reads changes of a table with system versioning: only current rows become records.
func TestVersionedRows(t *testing.T) {
	t.Parallel()
	open, later, done := time.Unix(1<<31-1, 999999000), time.Unix(1<<32-1, 999999000), time.Unix(1795817048, 0)
	for name, c := range map[string]struct {
		kind          binlog.Kind
		before, after any // row end
		want          string
	}{
		"a new row":                   {binlog.Insert, nil, open, "create"},
		"a new row of MariaDB 11.5":   {binlog.Insert, nil, later, "create"},
		"a new row by transactions":   {binlog.Insert, nil, uint64(1<<64 - 1), "create"},
		"a version for the history":   {binlog.Insert, nil, done, ""},
		"a change":                    {binlog.Update, open, open, "update"},
		"a row that ends":             {binlog.Update, open, done, "delete"},
		"a change of only some":       {binlog.Update, binlog.Absent, binlog.Absent, "update"},
		"a row that ends, of some":    {binlog.Update, binlog.Absent, done, "delete"},
		"a change of the history":     {binlog.Update, done, done, ""},
		"a row that is current again": {binlog.Update, done, open, "create"},
		"a row that is removed":       {binlog.Delete, open, nil, "delete"},
		"history that is removed":     {binlog.Delete, done, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &relation{keys: []int{0}, end: 1, before: []any{1, c.before, "x"}, after: []any{1, c.after, "x"},
				Table: &binlog.Table{Schema: "shop", Name: "t",
					Columns: []binlog.Column{{Name: "id"}, {Name: "row_end"}, {Name: "x"}}}}
			st := &stream{Source: &Source{}}
			if err := st.row(r, c.kind); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, rec := range st.records {
				before, _ := rec.Before.Structured()
				after, _ := rec.After.Structured()
				if got += rec.Operation.String(); before["row_end"] != nil || after["row_end"] != nil {
					t.Errorf("the record has the end of the row: %v %v", before, after)
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
