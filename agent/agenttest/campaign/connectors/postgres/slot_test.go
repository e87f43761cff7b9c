package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// slotWaits keeps a transaction open while the slot is created, which waits for the end of the transaction. The source
// does not use an unfinished slot.
func slotWaits(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	open := w.connect()
	if err := open.Exec(w.Context(), "BEGIN; INSERT INTO t VALUES (1)").Close(); err != nil {
		w.Fatal(err)
	}
	s := w.newSource(w.db + ":source")
	ctx, cancel := context.WithTimeout(s.Ctx, 500*time.Millisecond)
	defer cancel()
	if err := s.LifecycleOnCreated(ctx, w.settings("t")); err == nil ||
		!strings.Contains(err.Error(), "waits for the end of all open transactions") {
		w.Errorf("while a transaction is open: %v", err)
	}
	slots := fmt.Sprintf("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '%s'", w.db)
	wait.For(w, "the slot is given up", func() bool { return w.query(slots) == "0" })
	making, made := w.connect(), make(chan error, 1)
	go func() {
		made <- making.Exec(w.Context(), fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')",
			w.db)).Close()
	}()
	wait.For(w, "the slot is begun", func() bool { return w.query(slots) == "1" })
	if err := s.TryOpen(w.settings("t"), nil); err == nil || !strings.Contains(err.Error(), "is still being created") {
		w.Errorf("with an unfinished slot: %v", err)
	}
	if err := errors.Join(open.Exec(w.Context(), "COMMIT").Close(), <-made); err != nil {
		w.Fatal(err)
	}
	w.open(w.settings("t"), nil).Want(`snapshot t {"id":1} to {"id":1}`)
}

// lost drops the slot: the error names the loss and the remedy.
func lost(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	s := w.open(w.settings("t"), nil)
	last := s.Next(1)
	s.Settle(last...)
	w.exec("INSERT INTO t VALUES (2)")
	last = s.Next(1)
	w.exec(fmt.Sprintf("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '%s'",
		w.db))
	wait.For(w, "the slot is dropped", func() bool {
		c := w.connect()
		return c.Exec(w.Context(), fmt.Sprintf("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "+
			"WHERE slot_name = '%s' AND active; SELECT pg_drop_replication_slot('%s')", w.db, w.db)).Close() == nil
	})
	const want = "slot lost, a new snapshot is needed: slot"
	if err := s.Fails(); !strings.Contains(err.Error(), want) {
		w.Errorf("while it runs: %v", err)
	}
	s.Close()
	s = w.newSource(w.db + ":source")
	if err := s.TryOpen(w.settings("t"), last[0].Position); err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "delete the pipeline") {
		w.Errorf("at the next start: %v", err)
	}
}

// invalidated makes the server invalidate the slot, which retains more of the log than the limit: while the source
// runs, with a warning before, and at its next start.
func invalidated(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	s := w.open(w.settings("t"), nil).streaming()
	w.exec("INSERT INTO t VALUES (1)")
	last := s.Next(1) // not acknowledged
	keep := func(size string) {
		w.exec("ALTER SYSTEM SET max_slot_wal_keep_size = '" + size + "'")
		w.exec("SELECT pg_reload_conf()")
	}
	keep("1MB")
	defer keep("-1")
	wait.For(w, "it warns before the slot is lost", func() bool {
		w.exec("CREATE TABLE more (id int); DROP TABLE more; SELECT pg_switch_wal()")
		return strings.Contains(s.Progress().Warning, "will soon be invalidated by the server")
	})
	wait.For(w, "the server gives up the slot", func() bool {
		w.exec("CREATE TABLE more (id int); DROP TABLE more; SELECT pg_switch_wal()")
		w.exec("CHECKPOINT")
		return w.query(fmt.Sprintf("SELECT wal_status FROM pg_replication_slots WHERE slot_name = '%s'", w.db)) ==
			"lost"
	})
	const want = "slot lost, a new snapshot is needed: slot"
	if err := s.Fails(); !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "was invalidated by the server") {
		w.Errorf("while it runs: %v", err)
	}
	s.Close()
	s = w.newSource(w.db + ":source")
	if err := s.TryOpen(w.settings("t"), last[0].Position); err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "was invalidated by the server") {
		w.Errorf("at the next start: %v", err)
	}
}

func maxLag(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x text); INSERT INTO t VALUES (1)")
	write := func() {
		w.exec(
			"INSERT INTO t SELECT 10 + (SELECT max(id) FROM t) + i, repeat('x', 1000) FROM generate_series(1, 300) i")
	}
	s := w.open(w.settings("t", "slot.max-lag", "100kB"), nil)
	write()
	wait.For(w, "it warns", func() bool { return strings.Contains(s.Progress().Warning, "more than slot.max-lag") })
	s.Close()
	s = w.open(w.settings("t", "slot.max-lag", "100kB", "slot.max-lag-action", "stop"), nil)
	if err := s.Fails(); !strings.Contains(err.Error(), "the source stopped because slot.max-lag-action is stop") {
		w.Errorf("got %v", err)
	}
	s.Close()
	s = w.open(w.settings("t", "slot.max-lag", "100kB", "slot.max-lag-action", "drop"), nil)
	if err := s.Fails(); !strings.Contains(err.Error(), "slot lost, a new snapshot is needed") {
		w.Errorf("got %v", err)
	}
	if n := w.query(fmt.Sprintf("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '%s'", w.db)); n != "0" {
		w.Error("the slot is still there")
	}
}

// failover synchronizes the slot to standbys, which servers before PostgreSQL 17 cannot do.
func failover(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	s := w.newSource(w.db + ":source")
	err := s.TryOpen(w.settings("t", "slot.failover", "true"), nil)
	if version, _ := strconv.Atoi(w.query("SHOW server_version_num")); version < 170000 {
		if err == nil || !strings.Contains(err.Error(), "slot.failover needs PostgreSQL 17") {
			w.Errorf("got %v", err)
		}
		return
	}
	if err != nil {
		w.Fatal(err)
	}
	if got := w.query(fmt.Sprintf("SELECT failover FROM pg_replication_slots WHERE slot_name = '%s'", w.db)); got !=
		"t" {
		w.Errorf("failover of the slot is %s", got)
	}
}

// anotherServer opens a source whose URL leads to a server with another system identifier than the position.
func anotherServer(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	s := w.open(w.settings("t"), nil).streaming()
	w.exec("INSERT INTO t VALUES (1)")
	system := w.query("SELECT system_identifier FROM pg_control_system()")
	other := strings.Replace(string(s.Next(1)[0].Position), system, "7", 1)
	s.Close()
	s = w.newSource(w.db + ":source")
	if err := s.TryOpen(w.settings("t"), record.Position(other)); err == nil || !strings.Contains(err.Error(),
		"the position belongs to another server, with system identifier 7; the server of the url has "+system) {
		w.Errorf("got %v", err)
	}
}
