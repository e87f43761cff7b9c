package kill_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

const mqttRecords = 100_000

// BenchmarkMQTT moves messages of QoS 1 with an agent, and with a bare loop of the same client.
func BenchmarkMQTT(b *testing.B) {
	for _, one := range []struct {
		name string
		run  func(b *testing.B, m *mosquitto)
	}{
		{"subscriber", benchSubscriber}, {"mqtt-to-file", benchSubscribe},
		{"publisher", benchPublisher}, {"file-to-mqtt", benchPublish},
	} {
		b.Run(one.name, func(b *testing.B) {
			m := startMosquitto(b, b.TempDir(), "")
			for range b.N {
				one.run(b, m)
			}
			report(b, mqttRecords)
		})
	}
}

// queue makes the server keep the messages for a client.
func (m *mosquitto) queue(b *testing.B, id string) {
	b.Helper()
	m.subscribe(id, "bench")
	if err := m.publish(b.Context(), "bench", slices.Repeat([]string{httpLine}, mqttRecords)...); err != nil {
		b.Fatal(err)
	}
}

func benchSubscriber(b *testing.B, m *mosquitto) {
	b.StopTimer()
	m.queue(b, "bench")
	var n atomic.Int64
	b.StartTimer()
	c, err := m.connectWith(b.Context(), "bench",
		paho.ClientConfig{OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(paho.PublishReceived) (bool, error) { n.Add(1); return true, nil }}})
	if err != nil {
		b.Fatal(err)
	}
	wait.For(b, "all records", func() bool { return n.Load() >= mqttRecords })
	b.StopTimer()
	_ = c.Disconnect(&paho.Disconnect{})
}

func benchSubscribe(b *testing.B, m *mosquitto) {
	b.StopTimer()
	m.queue(b, "bench")
	dir := agenttest.NewDir(b)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:mqtt, settings: {url: "mqtt://%s", topics: bench, clientID: bench,
         receiveMaximum: 20000, auth.username: conduit, auth.password: word}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out}}
`, m.Addr, dir), lines(dir+"/out", mqttRecords))
}

func benchPublisher(b *testing.B, m *mosquitto) {
	if err := m.publish(b.Context(), "bench", slices.Repeat([]string{httpLine}, mqttRecords)...); err != nil {
		b.Fatal(err)
	}
}

func benchPublish(b *testing.B, m *mosquitto) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	writeLines(b, dir, mqttRecords)
	var n atomic.Int64
	c, err := m.connectWith(b.Context(), "bench",
		paho.ClientConfig{OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(paho.PublishReceived) (bool, error) { n.Add(1); return true, nil }}})
	if err == nil { // without acknowledgements, which take time from the server
		_, err = c.Subscribe(b.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "bench"}}})
	}
	if err != nil {
		b.Fatal(err)
	}
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:mqtt, settings: {url: "mqtt://%s", topic: bench,
         auth.username: conduit, auth.password: word,
          sdk.record.format: template, sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, dir, m.Addr), func() bool { return n.Load() >= mqttRecords })
	_ = c.Disconnect(&paho.Disconnect{})
}
