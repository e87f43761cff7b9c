package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Commands returns the commands of the script for the keys of records, as text.
func (d *Destination) Commands(ctx context.Context, records []record.Record) (string, error) {
	d.timeLimit.Begin(ctx)
	all, err := d.elements(ctx, records)
	var text []string
	for _, e := range all {
		one := fmt.Sprintf("%s %s %d", e.key, e.op, e.expire.Milliseconds())
		if e.op == opSet {
			one += " " + string(e.value)
		}
		for _, f := range e.fields {
			one += " " + string(f)
		}
		text = append(text, one)
	}
	return strings.Join(text, "; "), err
}
