package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	common "github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// settings are the settings of the source. Names and defaults up to withAvroSchema are the same as in Conduit's
// connector.
type settings struct {
	// How to connect: postgres://user:password@host:5432/database, or key=value pairs. TLS as with libpq: sslmode,
	// sslrootcert, sslcert, sslkey.
	URL string `json:"url" validate:"required"`
	// Tables to read: name or schema.name, public without a schema. * selects all tables of schema public, schema.* all
	// tables of that schema, orders_* all with that prefix, including future tables.
	Tables []string `json:"tables" literal:"true" default:"*" validate:"required"`
	// initial: first existing rows, then changes. never: only changes from now on.
	SnapshotMode string `json:"snapshotMode" default:"initial" validate:"inclusion=initial|never"`
	// Maximum number of snapshot rows in a batch. Values above 512 have no effect, because memory is bounded.
	FetchSize int `json:"snapshot.fetchSize" default:"50000" validate:"gt=0"`
	// Method of change data capture. Both values mean logical replication.
	CDCMode string `json:"cdcMode" default:"auto" validate:"inclusion=auto|logrepl"`
	// Publication with the tables. It is created if it does not exist.
	Publication string `json:"logrepl.publicationName" literal:"true" default:"conduitpub"`
	// Replication slot, used by this source only. It is created if it does not exist.
	Slot string `json:"logrepl.slotName" default:"conduitslot" validate:"regex=^[a-z0-9_]+$"`
	// Whether slot and publication are removed when the pipeline is deleted. A remaining slot retains write-ahead log
	// indefinitely.
	AutoCleanup bool `json:"logrepl.autoCleanup" default:"true"`
	// Whether records reference Avro schemas derived from the column types: TABLE_key and TABLE_payload.
	WithAvroSchema bool `json:"logrepl.withAvroSchema" default:"true"`

	// Tables to read completely again: table/word; a new word starts another snapshot. Changes wait meanwhile.
	Again []string `json:"snapshot.again"`
	// Maximum write-ahead log that the slot may retain on the server, such as 500MB or 10GB. 0: no limit.
	MaxLag string `json:"slot.max-lag" default:"0"`
	// Action beyond slot.max-lag. warn: log a warning. stop: fail the pipeline and keep the slot. drop: drop the slot,
	// which frees the disk but requires a new snapshot.
	OnMaxLag string `json:"slot.max-lag-action" default:"warn" validate:"inclusion=warn|stop|drop"`
	// Whether a new slot is synchronized to standbys, so that it survives a failover. Needs PostgreSQL 17.
	Failover bool `json:"slot.failover" default:"false"`
	// Interval at which the log position is confirmed to the server, also for idle tables, and lag is measured. A
	// connection that is silent for three times as long is recreated.
	Heartbeat time.Duration `json:"heartbeat" default:"10s" validate:"gt=0"`

	// Time to wait for a response before another connection checks whether the server still works on it. If not, the
	// connection is closed after another half of this time.
	Timeout time.Duration `json:"timeout" default:"20s" validate:"gt=0"`

	maxLag int64
}

func (s *settings) parse(ctx context.Context, given map[string]string) error {
	if err := sdk.Decode(given, s); err != nil {
		return err
	}
	for _, t := range s.Tables {
		if t == "*" && len(s.Tables) > 1 {
			return sdk.SettingError{Setting: "tables", Message: "* stands alone"}
		}
	}
	sameTable := func(a, b string) bool {
		schema, name := pg.ParsePattern(a)
		otherSchema, other := pg.ParsePattern(b)
		return schema == otherSchema && name == other
	}
	if err := common.CheckItems("tables", s.Tables, wrongTable, sameTable); err != nil {
		return err
	}
	if err := pg.CheckURL(ctx, s.URL); err != nil {
		return err
	}
	var err error
	if s.maxLag, err = parseBytes(s.MaxLag); err != nil {
		return sdk.SettingError{Setting: "slot.max-lag", Message: err.Error()}
	}
	for _, a := range s.Again {
		if table, word, ok := strings.Cut(a, "/"); !ok || table == "" || word == "" {
			return sdk.SettingError{Setting: "snapshot.again",
				Message: fmt.Sprintf("must be table/word, for example orders/1, not %q", a)}
		}
	}
	return nil
}

// wrongTable describes the mistake in an item of tables, or returns "".
func wrongTable(item string) string {
	schema, name := pg.ParsePattern(item)
	switch {
	case strings.Contains(schema, "*"):
		return "cannot have * in the schema: * matches only table names; list each schema"
	case strings.Contains(name, "*") && strings.ContainsAny(name, `.\^$|()[]{}+?%`):
		return "looks like a regular expression or a LIKE pattern: in a table name, * matches any characters, and " +
			"every other character matches only itself"
	}
	return ""
}

var bytesPattern = texts.Regexp(`^(\d+)\s*([kKMGT]?)(i?)B?$`)

// parseBytes parses a size such as 500, 500MB or 10GiB.
func parseBytes(s string) (int64, error) {
	m := bytesPattern().FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, fmt.Errorf("must be a size such as 500MB or 10GB, not %q", s)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	unit := int64(1000)
	if m[3] != "" {
		unit = 1024
	}
	for range strings.Index(" kMGT", strings.Replace(m[2], "K", "k", 1)) {
		if m[2] == "" {
			break
		}
		if n > (1<<62)/unit {
			return 0, fmt.Errorf("%q is too large", s)
		}
		n *= unit
	}
	return n, err
}
