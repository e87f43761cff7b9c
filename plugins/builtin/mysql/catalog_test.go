package mysql_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

// orders returns a table whose key has two columns.
func orders() *mysql.Table {
	return &mysql.Table{
		Schema: "shop", Name: "or`ders",
		Columns: []mysql.Column{
			{Name: "name", Type: "varchar", Charset: "utf8mb4"}, {Name: "id", Type: "varbinary"},
			{Name: "price", Type: "float"}, {Name: "total", Type: "double", Generated: true},
		},
		Key: []string{"id", "name"},
	}
}

func TestPage(t *testing.T) {
	table := orders()
	keys := table.Ordered()
	if !slices.Equal(keys, []int{1, 0}) {
		t.Fatalf("ordered by columns %v", keys)
	}
	const from = "SELECT `name`, `id`, `price` * 1e0 FROM `shop`.`or``ders`"
	last := table.Last(keys, []sql.RawBytes{[]byte("it's"), {0, 0xff}, []byte("1"), nil})
	for want, got := range map[string]string{
		from:                                     table.Page(nil, nil, 10),
		from + " ORDER BY `id`, `name` LIMIT 10": table.Page(keys, nil, 10),
		from +
			" WHERE `id` >= x'00ff' AND (`id` > x'00ff' OR `name` > CONVERT(x'69742773' USING utf8mb4)) ORDER BY `id`, " +
			"`name` LIMIT 10": table.Page(keys, last, 10),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestNoOrder(t *testing.T) {
	for _, typ := range []string{"enum", "set", "bit", "float", "double", "json"} {
		table := orders()
		table.Columns[0].Type = typ
		if keys := table.Ordered(); keys != nil {
			t.Errorf("rows are read in the order of a key with a %s: columns %v", typ, keys)
		}
	}
}

func TestTableChangedAfterTheLog(t *testing.T) {
	for words, logged := range map[string]*binlog.Table{
		"the change has 1 columns and the table has 4": {
			Columns: []binlog.Column{{Type: binlog.TypeVarchar}}},
		"column 3 of the change is not of type float like column price of the table": {
			Columns: []binlog.Column{{Type: binlog.TypeVarchar}, {Type: binlog.TypeVarchar}, {Type: binlog.TypeLong},
				{Type: binlog.TypeDouble}}},
		"column total: its fractional seconds are in the format": {Named: true,
			Columns: []binlog.Column{{Name: "total", Type: binlog.TypeTime}}},
	} {
		table := orders()
		table.Columns[3].Precision = 3
		if _, err := table.Complete(context.Background(), logged, &mysql.Charsets{}, true); err == nil ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want words %q", err, words)
		}
	}
}
