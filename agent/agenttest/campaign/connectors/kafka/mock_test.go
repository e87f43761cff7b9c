package kafka_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/record"
)

// startMock starts the mock cluster of librdkafka, and returns the broker addresses.
func startMock(t *testing.T) string {
	t.Helper()
	cc := server.Need(t, "cc", "gcc")
	if _, err := os.Stat("/usr/include/librdkafka/rdkafka_mock.h"); err != nil {
		t.Fatal("the mock cluster of librdkafka is not installed: the package librdkafka-dev has it")
	}
	path := filepath.Join(t.TempDir(), "mock")
	if out, err := exec.Command(cc, "-Wall", "-Werror", "-o", path, "testdata/mock.c",
		"-lrdkafka").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(path)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("cannot read the address of the mock cluster: %v", err)
	}
	return strings.Join(interpreted(t, strings.Split(strings.TrimSpace(line), ",")...), ",")
}

// TestMockCluster moves records through a second implementation of the protocol besides kfake: the destination writes
// them, the source reads them and resumes from group and position.
func TestMockCluster(t *testing.T) {
	load.Parallel(t, load.Server)
	w := &world{T: t, addr: startMock(t), topic: "mock"}
	brokers := strings.Split(w.addr, ",")
	w.client, _ = kgo.NewClient(kgo.SeedBrokers(brokers...))
	t.Cleanup(w.client.Close)
	w.admin = kadm.NewClient(w.client)

	var all []record.Record
	for i := range 100 {
		r := one(i, fmt.Sprint(i))
		r.Key = record.Raw([]byte(fmt.Sprint(i % 7)))
		all = append(all, r)
	}
	w.openDestination(plainValue(w.destinationSettings("headers", "true"))).write(all...)

	s := w.open(w.settings("groupID", "first"), nil)
	got := s.read(100)
	last := map[string]int{}
	for i := range got {
		var n int
		_, _ = fmt.Sscan(show(got)[i], &n)
		key, _ := got[i].Key.Raw()
		if before, ok := last[string(key)]; ok && n <= before {
			t.Errorf("%d came behind %d, with the same key", n, before)
		}
		last[string(key)] = n
	}
	if len(last) != 7 || len(got) != 100 {
		t.Errorf("%d records of %d keys came", len(got), len(last))
	}
	s.ack(got[:60]...)
	s.close()
	t.Run("group", func(t *testing.T) {
		t.Parallel()
		if rest := w.forSubtest(t).open(w.settings("groupID", "first"), nil).read(40); len(rest) != 40 {
			t.Errorf("behind the offsets of the group %d records came, want 40", len(rest))
		}
	})
	t.Run("position", func(t *testing.T) {
		t.Parallel()
		position := strings.Replace(string(got[59].Position), `"GroupID":"first"`, `"GroupID":"second"`, 1)
		if rest := w.forSubtest(t).open(w.settings("groupID", "second", "readFromBeginning", "false"),
			record.Position(position)).read(40); len(rest) != 40 {
			t.Errorf("behind the position %d records came, want 40", len(rest))
		}
	})
}

// forSubtest returns the world for a subtest.
func (w *world) forSubtest(t *testing.T) *world {
	part := *w
	part.T = t
	return &part
}
