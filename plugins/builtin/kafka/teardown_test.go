package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestTeardownWithoutBroker leaves a group whose broker is gone, with outstanding records and without.
func TestTeardownWithoutBroker(t *testing.T) {
	t.Parallel()
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
