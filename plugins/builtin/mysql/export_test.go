package mysql

import "github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"

// Compare compares a position with the transactions that MySQL has executed and purged.
func Compare(set, in, executed, purged string) error {
	parse := func(text string) binlog.GTIDSet {
		s, err := binlog.ParseGTIDSet(text)
		if err != nil {
			panic(err)
		}
		return s
	}
	s := &Source{at: place{set: parse(set), in: in, file: "bin.000001"}}
	return s.compare(parse(executed), parse(purged))
}

// Check returns the required changes to a server with these variables.
func Check(variables map[string]string) error { return (&serverInfo{variables: variables}).check() }
