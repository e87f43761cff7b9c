package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	server

	// Tables to read: name, of the database above, or database.name. * selects all tables of the database, database.*
	// all tables of that one, including future tables.
	Tables []string `json:"tables" literal:"true" default:"*" validate:"required"`
	// initial: first existing rows, then changes. never: only changes from now on.
	SnapshotMode string `json:"snapshotMode" default:"initial" validate:"inclusion=initial|never"`
	// Tables to read completely again: table/word; a new word starts another snapshot. Changes wait meanwhile.
	Again []string `json:"snapshot.again"`
	// Server id of the source among the replicas of the server; it must be unique. 0: a random one each time.
	ServerID uint32 `json:"serverId" default:"0"`
	// Interval of heartbeats from an idle server and of lag measurements. A connection that is silent for three times
	// as long is recreated.
	Heartbeat time.Duration `json:"heartbeat" default:"10s" validate:"gt=0"`

	patterns []pattern
}

// pattern is an entry of the setting tables.
type pattern struct {
	Pattern
	item string
}

// resolve returns the tables that match the patterns, sorted by id, without their columns.
func resolve(ctx context.Context, db *sql.DB, patterns []pattern) ([]*Table, error) {
	all := make([]Pattern, len(patterns))
	for i, p := range patterns {
		all[i] = p.Pattern
	}
	return Resolve(ctx, db, all)
}

func (s *sourceSettings) patternOf(entry string) pattern {
	if schema, name, ok := strings.Cut(entry, "."); ok {
		return pattern{Pattern: Pattern{Schema: schema, Name: name}}
	}
	return pattern{Pattern: Pattern{Schema: s.Database, Name: entry}}
}

func (s *sourceSettings) parse(_ context.Context, given map[string]string) error {
	if err := sdk.Decode(given, s); err != nil {
		return err
	}
	if slices.Contains(s.Tables, "*") && len(s.Tables) > 1 {
		return sdk.SettingError{Setting: "tables", Message: "* stands alone"}
	}
	sameTable := func(a, b string) bool { return s.patternOf(a) == s.patternOf(b) }
	if err := common.CheckItems("tables", s.Tables, wrongTable, sameTable); err != nil {
		return err
	}
	if _, err := s.config(); err != nil {
		return err
	}
	s.patterns = nil
	for _, t := range s.Tables {
		p := s.patternOf(t)
		p.item = itemOf(p.Schema + "." + p.Name)
		s.patterns = append(s.patterns, p)
	}
	for _, a := range s.Again {
		table, word := againOf(a)
		if table == "" || word == "" {
			return sdk.SettingError{Setting: "snapshot.again",
				Message: fmt.Sprintf("must be table/word, for example orders/1, not %q", a)}
		}
		p := s.patternOf(table)
		if p.Name == "*" || !s.wants(p.Schema, p.Name) {
			return sdk.SettingError{Setting: "snapshot.again",
				Message: fmt.Sprintf("has %q, but tables does not select this table", table)}
		}
		p.item = itemOf("again " + p.Schema + "." + p.Name + "/" + word)
		s.patterns = append(s.patterns, p)
	}
	return nil
}

// wrongTable describes the mistake in an item of tables, or returns "".
func wrongTable(item string) string {
	schema, name, ok := strings.Cut(item, ".")
	if !ok {
		schema, name = "", item
	}
	if strings.Contains(schema, "*") || name != "*" && strings.Contains(name, "*") {
		return "cannot have * within a name: * alone selects all tables of the database, and database.* " +
			"those of another database"
	}
	return ""
}

// againOf splits an entry of snapshot.again.
func againOf(entry string) (table, word string) {
	i := strings.LastIndexByte(entry, '/')
	if i < 0 {
		return "", ""
	}
	return entry[:i], entry[i+1:]
}

// wants reports whether the settings include a table.
func (s *sourceSettings) wants(schema, name string) bool {
	return slices.ContainsFunc(s.patterns, func(p pattern) bool { return p.Matches(schema, name) })
}

// wantsAny reports whether the settings include a table of this database.
func (s *sourceSettings) wantsAny(schema string) bool {
	return slices.ContainsFunc(s.patterns, func(p pattern) bool { return p.Schema == schema })
}

// items returns the items of all entries.
func (s *sourceSettings) items() (all items) {
	for _, p := range s.patterns {
		all = append(all, p.item)
	}
	return all
}

// tableItems returns the items of the setting tables.
func (s *sourceSettings) tableItems() items { return s.items()[:len(s.Tables)] }

// fingerprint identifies the value of the setting tables.
func (s *sourceSettings) fingerprint() string {
	all := slices.Clone(s.tableItems())
	slices.Sort(all)
	return itemOf(all.String())
}

// replica returns the configuration for logging in as a replica.
func (s *sourceSettings) replica() (*binlog.Config, error) {
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	return &binlog.Config{Addr: c.Addr, User: s.User, Password: s.Password, TLS: c.TLS, Timeout: s.Timeout}, nil
}
