package mysql_test

import (
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// withGTIDs are the options of a MySQL that a source reads from.
var withGTIDs = []string{"--log-bin=bin", "--binlog-format=ROW", "--server-id=1", "--gtid-mode=ON",
	"--enforce-gtid-consistency", "--log-slave-updates"}

// TestMySQLSource reads from a MySQL, by its GTIDs.
func TestMySQLSource(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartMySQL(t, withGTIDs...)
	for name, test := range map[string]func(*world){
		"SnapshotAndChanges": snapshotAndChanges, "InsideTransaction": insideTransaction, "Interleaved": interleaved,
		"LargeTransaction": largeTransaction, "Keys": keys, "Types": types,
		"Rotation": rotation, "Purged": purged, "ResetMaster": resetMaster, "ResetBehind": resetBehind,
		"ProgramsWrite": programsWrite,
	} {
		t.Run(name, func(t *testing.T) { test(in(t, s, "DO 1")) })
	}
	for name, test := range map[string]func(*world){
		"Chunks": chunks, "Killed": killedSnapshot, "Again": readAgain, "Added": tablesAdded, "Never": never,
		"Written": writtenMeanwhile, "Cut": cutSnapshot, "HeldUp": heldUp, "HalfOpen": halfOpenSnapshot,
		"HalfOpenRows": halfOpenRows,
	} {
		t.Run(name, func(t *testing.T) { test(in(t, s, "CREATE TABLE t (id int PRIMARY KEY, x varchar(100))")) })
	}
}

// TestMySQLFailover resumes at a replica.
func TestMySQLFailover(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	failover(t, server.StartMySQL, withGTIDs, "master_auto_position = 1", "SELECT @@GLOBAL.gtid_executed",
		"the server lacks transactions")
}

// TestMySQLWithoutGTIDs reads from a MySQL by places in files.
func TestMySQLWithoutGTIDs(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartMySQL(t, withGTIDs[:3]...)
	withoutGTIDs(t, s, s.Addr)
}

// TestMySQLDestination writes to a MySQL, whose sessions are not strict by default.
func TestMySQLDestination(t *testing.T) {
	load.Parallel(t, load.Server)
	// A value is limited to a tenth of the log.
	s := server.StartMySQL(t, "--max-allowed-packet=16M", "--innodb-log-file-size=128M")
	for name, test := range map[string]func(*testing.T, *server.MySQL){
		"Operations": operations, "Refused": refusedRecords, "Indexes": indexes, "Values": writtenValues, "Once": once,
		"Engine": engine, "LostAnswer": lostAnswer, "HalfOpen": halfOpen, "Large": large, "Rights": rights,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// TestMySQLContract runs the conformance tests of sources with a MySQL.
func TestMySQLContract(t *testing.T) {
	load.Parallel(t, load.Server)
	contract(t, server.StartMySQL(t, withGTIDs...))
}
