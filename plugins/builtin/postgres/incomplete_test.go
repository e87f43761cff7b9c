package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// tuple returns a row: "-" is NULL or not sent as part of a key, "?" a large value that was not sent.
func tuple(values string) (t pg.Tuple) {
	for v := range strings.FieldsSeq(values) {
		switch v {
		case "-":
			t = append(t, pg.Value{Kind: pg.Null})
		case "?":
			t = append(t, pg.Value{Kind: pg.Unchanged})
		default:
			t = append(t, pg.Value{Kind: pg.Text, Text: []byte(v)})
		}
	}
	return t
}

// rowNow is the current row of a table; empty: it no longer exists.
type rowNow string

func (n rowNow) complete(_ context.Context, _ *relation, row pg.Tuple, _ uint32) (bool, error) {
	if n == "" {
		return false, nil
	}
	var values [][]byte
	for i, v := range tuple(string(n)) {
		if row[i].Kind == pg.Unchanged {
			values = append(values, v.Text)
		}
	}
	fill(row, values)
	return true, nil
}

func (rowNow) ancestors(context.Context, uint32) ([]uint32, error) { return nil, nil }

// TestIncompleteRows reads changes for which the server does not send all columns. Records of new rows and all keys
// must be complete.
func TestIncompleteRows(t *testing.T) {
	t.Parallel()
	const remedy = "REPLICA IDENTITY FULL"
	for name, c := range map[string]struct {
		message pg.Message
		keys    []int
		now     string // the current row; "" if it no longer exists
		want    []string
		fails   string
	}{
		"an update without a large value": {message: &pg.Update{New: tuple("1 ? 2")}, keys: []int{0},
			want: []string{`update {"id":"1"} {"id":"1","v":"2"}`}},
		"a new key without a large value": {message: &pg.Update{Old: tuple("1 - -"),
			OldKey: true, New: tuple("10 ? 2")}, keys: []int{0}, now: "10 large 3",
			want: []string{`delete {"id":"1"} null`, `create {"id":"10"} {"big":"large","id":"10","v":"2"}`}},
		"a new key, and the large value is NULL now": {message: &pg.Update{Old: tuple("1 - -"),
			OldKey: true, New: tuple("10 ? 2")}, keys: []int{0}, now: "10 - 3",
			want: []string{`delete {"id":"1"} null`, `create {"id":"10"} {"big":null,"id":"10","v":"2"}`}},
		"a new key of a row that is gone": {message: &pg.Update{Old: tuple("1 - -"),
			OldKey: true, New: tuple("10 ? 2")}, keys: []int{0},
			want: []string{`delete {"id":"1"} null`}},
		"a new key with the whole old row": {message: &pg.Update{Old: tuple("1 large 1"), New: tuple("10 ? 2")},
			keys: []int{0},
			want: []string{`delete {"id":"1"} null`, `create {"id":"10"} {"big":"large","id":"10","v":"2"}`}},
		"a large value of the key": {message: &pg.Update{Old: tuple("1 large -"), OldKey: true, New: tuple("1 ? 2")},
			keys: []int{0, 1},
			want: []string{`update {"big":"large","id":"1"} {"big":"large","id":"1","v":"2"}`}},
		"a new key with a large value": {message: &pg.Update{Old: tuple("1 large -"),
			OldKey: true, New: tuple("10 ? 2")}, keys: []int{0, 1},
			want: []string{`delete {"big":"large","id":"1"} null`,
				`create {"big":"large","id":"10"} {"big":"large","id":"10","v":"2"}`}},
		"a large value of the key that is nowhere": {message: &pg.Update{New: tuple("1 ? 2")},
			keys: []int{0, 1}, fails: "key column big"},
		"an old key that is not all": {message: &pg.Update{Old: tuple("- large -"),
			OldKey: true, New: tuple("1 x 2")}, keys: []int{0}, fails: "key column id"},
		"a delete without the key": {message: &pg.Delete{Old: tuple("- large -"),
			OldKey: true}, keys: []int{0}, fails: "key column id"},
		"an insert": {message: &pg.Insert{New: tuple("1 - 2")},
			keys: []int{0}, want: []string{`create {"id":"1"} {"big":null,"id":"1","v":"2"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &relation{schema: "public", name: "docs", wanted: true,
				keys: c.keys, schemas: map[string]record.Metadata{},
				columns: []pg.Column{{Name: "id"}, {Name: "big"}, {Name: "v"}}}
			st := &stream{Source: &Source{log: slog.New(slog.DiscardHandler)},
				relations: map[uint32]*relation{0: r}, tx: transaction{Begin: pg.Begin{Commit: 1}}}
			st.now = rowNow(c.now)
			err := st.handle(t.Context(), c.message)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || !strings.Contains(err.Error(),
					remedy) || !strings.Contains(err.Error(), "add public.docs/1") {
					t.Fatalf("got %v", err)
				}
				st.tx.skip = true // as if the table has been read again
				if err := st.handle(t.Context(), c.message); err != nil {
					t.Errorf("a change that is not emitted fails: %v", err)
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
