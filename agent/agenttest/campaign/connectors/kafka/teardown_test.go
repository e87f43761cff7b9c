package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestDeliveryTimeout gives up a message that no broker accepts within the timeout: no record is blamed for it. With
// acknowledgements from all replicas, the client does not give up a message that it sent without an answer, because the
// message may be stored.
func TestDeliveryTimeout(t *testing.T) {
	load.Parallel(t, load.Server)
	k := server.StartKafka(t, server.KafkaOptions{})
	w := in(t, k.Addr, 1)
	d := w.openDestination(w.destinationSettings("deliveryTimeout", "1s", "acks", "one"))
	d.write(one(1, "a"))
	k.Stop()
	ctx, cancel := context.WithTimeout(d.ctx, wait.Limit)
	defer cancel()
	if n, err := d.Write(ctx, []record.Record{one(2, "b")}); n != 0 || err == nil || !unavailable(err) ||
		ctx.Err() != nil {
		t.Errorf("%d written: %v", n, err)
	}
}

// TestTeardownWithoutBroker leaves a group whose broker is gone, with outstanding records and without.
func TestTeardownWithoutBroker(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	for _, settled := range []bool{true, false} {
		t.Run(fmt.Sprint("settled records: ", settled), func(t *testing.T) {
			t.Parallel()
			k := server.StartKafka(t, server.KafkaOptions{})
			w := in(t, k.Addr, 2)
			w.produce(0, "a", "b")
			s := w.open(w.settings(), nil)
			all := s.want("a", "b")
			k.Kill()
			if settled {
				s.ack(all...)
			}
			s.torn = true
			done := make(chan struct{})
			go func() { _ = s.Teardown(context.WithoutCancel(s.ctx)); close(done) }()
			select {
			case <-done:
			case <-time.After(wait.Limit):
				t.Fatal("it does not end")
			}
		})
	}
}
