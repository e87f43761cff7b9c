package store

import (
	"context"
	"database/sql"
	"time"
)

// scanner is a row of a result.
type scanner interface{ Scan(dest ...any) error }

// querier has the common methods of transactions and pools.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// queryAll returns all rows of a result, each converted by scan. It never returns nil without an error.
func queryAll[T any](
	ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any,
) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// nanos returns the integer that the tables store for t. fromNanos is the inverse.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
