package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/packets"

	"github.com/conduit-agent/conduit/plugins/builtin/mqtt"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestSettings checks the errors for invalid settings.
func TestSettings(t *testing.T) {
	for want, set := range map[string]map[string]string{
		`"url": must be`:          {"url": "tcp://a", "topics": "x"},
		`"url": must not contain`: {"url": "mqtt://u:p@a", "topics": "x"},
		`"topics": is`:            {"url": "mqtt://a"},
		`"tls.key": is`:           {"url": "mqtts://a", "topics": "x", "tls.cert": "y"},
	} {
		if err := (&mqtt.Source{}).Configure(t.Context(), set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", set, err, want)
		}
	}
	for _, topic := range []string{"a/#", "{{", "{{ .Metadata.x"} {
		if err := (&mqtt.Destination{}).Configure(t.Context(), map[string]string{"url": "mqtt://a",
			"topic": topic}); err == nil || !strings.Contains(err.Error(), `"topic"`) {
			t.Errorf("topic %s: got %v", topic, err)
		}
	}
	s := &mqtt.Source{}
	if err := s.Open(t.Context(), record.Position("7")); err == nil || !strings.Contains(err.Error(), "cannot resume") {
		t.Errorf("got %v", err)
	}
}

// A message in flight when the connection is lost is published again at once, regardless of the answer timeout.
func TestPublishesAgainAtOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan []string, 1)
	go func() {
		first := serveOne(l, func(net.Conn, *packets.Publish) bool { return false })
		second := serveOne(l, func(c net.Conn, p *packets.Publish) bool {
			_, err := (&packets.Puback{PacketID: p.PacketID, Properties: &packets.Properties{}}).WriteTo(c)
			return err == nil
		})
		served <- []string{first, second}
	}()
	d := open(t, map[string]string{"url": "mqtt://" + l.Addr().String(), "topic": "a", "timeout": "1h",
		"retry.timeout": "1h"})
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if n, err := d.Write(ctx, []record.Record{{Position: record.Position("1"), Operation: record.OperationCreate,
		After: record.Raw([]byte("x"))}}); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	if err := errors.Join(l.Close(), d.Teardown(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := <-served; got[0] == "" || got[0] != got[1] {
		t.Errorf("published %q", got)
	}
}

// serveOne serves one client until it disconnects, or until publish asks to close the connection. It returns the last
// published payload.
func serveOne(l net.Listener, publish func(net.Conn, *packets.Publish) bool) (payload string) {
	return serveLimited(l, 0, publish)
}

// serveLimited is serveOne for a server that accepts packets up to a size; 0: of any size.
func serveLimited(l net.Listener, most uint32, publish func(net.Conn, *packets.Publish) bool) (payload string) {
	c, err := l.Accept()
	if err != nil {
		return ""
	}
	defer c.Close()
	for {
		p, err := packets.ReadPacket(c)
		if err != nil {
			return payload
		}
		switch content := p.Content.(type) {
		case *packets.Connect:
			limits := &packets.Properties{}
			if most > 0 {
				limits.MaximumPacketSize = &most
			}
			_, _ = (&packets.Connack{Properties: limits}).WriteTo(c)
		case *packets.Publish:
			if payload = string(content.Payload); !publish(c, content) {
				return payload
			}
		}
	}
}

// Several messages are in flight: a server that answers only after it has received all messages does receive them all.
// After a lost connection, the unanswered messages are published again in order.
func TestPublishesSeveral(t *testing.T) {
	t.Parallel()
	var got [2][]string
	answer := func(c net.Conn, p *packets.Publish, code byte) bool {
		_, err := (&packets.Puback{PacketID: p.PacketID, ReasonCode: code,
			Properties: &packets.Properties{}}).WriteTo(c)
		return err == nil
	}
	d, stop := served(t, func(c net.Conn, p *packets.Publish) bool {
		if got[0] = append(got[0], string(p.Payload)); len(got[0]) < 4 {
			return true
		}
		_, _ = answer(c, &packets.Publish{PacketID: 1}, 0), answer(c, &packets.Publish{PacketID: 2}, 0)
		return false
	}, func(c net.Conn, p *packets.Publish) bool {
		got[1] = append(got[1], string(p.Payload))
		return answer(c, p, 0)
	})
	if n, err := d.Write(t.Context(), numbered("1", "2", "3", "4")); n != 4 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	stop()
	if fmt.Sprint(got) != "[[1 2 3 4] [3 4]]" {
		t.Errorf("published %v", got)
	}
}

// When a refused record is retried, the records after it that the server already has are not published again.
func TestRefusedBetween(t *testing.T) {
	t.Parallel()
	var got []string
	d, stop := served(t, func(c net.Conn, p *packets.Publish) bool {
		got = append(got, string(p.Payload))
		code := map[string]byte{"2": packets.PubackPayloadFormatInvalid,
			"4": packets.PubackPayloadFormatInvalid}[string(p.Payload)]
		_, err := (&packets.Puback{PacketID: p.PacketID, ReasonCode: code,
			Properties: &packets.Properties{}}).WriteTo(c)
		return err == nil
	})
	records := numbered("1", "2", "3", "4", "5")
	for _, want := range []struct{ from, n int }{{0, 1}, {2, 1}, {4, 1}} {
		n, err := d.Write(t.Context(), records[want.from:])
		if n != want.n || (err == nil) != (want.from+n == len(records)) {
			t.Errorf("wrote %d from %d: %v", n, want.from, err)
		}
	}
	stop()
	if fmt.Sprint(got) != "[1 2 3 4 5 4 5]" {
		t.Errorf("published %v", got)
	}
}

func numbered(payloads ...string) (records []record.Record) {
	for _, p := range payloads {
		records = append(records, record.Record{Position: record.Position(p), Operation: record.OperationCreate,
			After: record.Raw([]byte(p))})
	}
	return records
}

// served returns a destination for a server that serves the connections one after the other. stop ends both.
func served(t *testing.T, connections ...func(net.Conn, *packets.Publish) bool) (d sdk.Destination, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, publish := range connections {
			serveOne(l, publish)
		}
	}()
	d = open(t, map[string]string{"url": "mqtt://" + l.Addr().String(), "topic": "a", "sdk.record.format": "template",
		"sdk.record.format.options": `{{ printf "%s" .Payload.After }}`})
	return d, func() {
		if err := errors.Join(l.Close(), d.Teardown(context.WithoutCancel(t.Context()))); err != nil {
			t.Error(err)
		}
		<-ended
	}
}

// open returns an opened destination.
func open(t *testing.T, settings map[string]string) sdk.Destination {
	t.Helper()
	d := sdk.Standard(mqtt.Connector()).NewDestination()
	err := d.Configure(t.Context(), settings)
	if err == nil {
		err = d.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

// TestClientIDs checks that no two clients have the same name, and that every server accepts the default names.
func TestClientIDs(t *testing.T) {
	taken := map[string]bool{}
	for _, setting := range []string{"", "mine"} {
		for _, replay := range []bool{false, true} {
			for _, connector := range []string{"p:a", "p:b", "p:a-replay"} {
				id := mqtt.ClientID(setting, &sdk.Env{ConnectorID: connector, Replay: replay})
				if taken[id] && setting == "" || setting == "" && len(id) > 23 || setting != "" &&
					(id == setting) == replay {
					t.Errorf("%s with %q, replay %t: %q", connector, setting, replay, id)
				}
				taken[id] = true
			}
		}
	}
}
