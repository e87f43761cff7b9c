package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// presence holds the last observed tables and partitions. It detects those that disappeared or appeared together with
// their rows: the server sends no changes of these rows.
type presence struct {
	mu   sync.Mutex
	last *sighting // guarded by mu; nil: none yet
}

// sighting holds the tables and partitions at one time.
type sighting struct {
	tables     map[uint32]string
	partitions map[uint32]partition
}

type partition struct{ table, name string }

// partitionsQuery selects the partitions that hold the rows of partitioned tables.
const partitionsQuery = `
SELECT t.relid::oid, n.nspname || '.' || c.relname, root
FROM unnest($1::oid[]) root, pg_catalog.pg_partition_tree(root) t
  JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.isleaf AND t.relid <> root`

// olderRowQuery queries whether the partition with the name %[1]s and the OID $1 has rows from before it was attached.
const olderRowQuery = `SELECT EXISTS (SELECT FROM %[1]s t, pg_catalog.pg_inherits i WHERE i.inhrelid = $1::oid AND ` +
	`age(t.xmin) > age(i.xmin))`

// compare finds tables and partitions that disappeared or appeared since the last call, and returns warnings about
// them.
func (p *presence) compare(ctx context.Context, set *setup, tables []*pg.Table) (warnings []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := &sighting{tables: map[uint32]string{}}
	var roots []string
	for _, t := range tables {
		now.tables[t.OID] = t.ID()
		if t.Partitions {
			roots = append(roots, strconv.FormatUint(uint64(t.OID), 10))
		}
	}
	if now.partitions, err = partitionsOf(ctx, set, now.tables, roots); err != nil {
		return nil, err
	}
	before := p.last
	if p.last = now; before == nil {
		return nil, nil
	}
	return now.since(ctx, set, before), nil
}

// since describes the differences between now and before.
func (now *sighting) since(ctx context.Context, set *setup, before *sighting) (warnings []string) {
	for oid, name := range before.tables {
		if now.tables[oid] == "" && now.partitions[oid].table == "" {
			warnings = append(warnings, fmt.Sprintf("table %s was dropped, renamed or moved to another schema; if "+
				"its rows are gone, there are no delete records for them", name))
		}
	}
	for oid, was := range before.partitions {
		if now.partitions[oid].table == "" && now.has(was.table) {
			warnings = append(warnings, fmt.Sprintf("partition %s of table %s was dropped or detached, without "+
				"delete records for its rows: remove them at the destination", was.name, was.table))
		}
	}
	for oid, is := range now.partitions {
		if before.partitions[oid].table != "" || !before.has(is.table) {
			continue
		}
		schema, name, _ := strings.Cut(is.name, ".")
		older, err := pg.Row(ctx, set.conn, fmt.Sprintf(olderRowQuery, pg.Quote(schema)+"."+pg.Quote(name)),
			strconv.FormatUint(uint64(oid), 10))
		if err == nil && older[0] == "t" || pg.Code(err) == pg.CodePrivilege {
			warnings = append(warnings, fmt.Sprintf("partition %s was attached to table %s, without records of "+
				"the rows that it already had: to read the table again, add %s/1, or another word after the "+
				"slash, to snapshot.again", is.name, is.table, is.table))
		}
	}
	slices.Sort(warnings)
	return warnings
}

func (now *sighting) has(table string) bool {
	for _, name := range now.tables {
		if name == table {
			return true
		}
	}
	return false
}

func partitionsOf(ctx context.Context, set *setup,
	tables map[uint32]string, roots []string) (map[uint32]partition, error) {
	all := map[uint32]partition{}
	if len(roots) == 0 {
		return all, nil
	}
	rows, err := pg.Rows(ctx, set.conn, partitionsQuery, "{"+strings.Join(roots, ",")+"}")
	if err != nil {
		return nil, fmt.Errorf("cannot look up partitions: %w", err)
	}
	for _, r := range rows {
		all[idOf(r[0])] = partition{tables[idOf(r[2])], r[1]}
	}
	return all, nil
}
