package mqtt_test

import (
	"net"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/builtin/mqtt"
	"github.com/conduit-agent/conduit/plugins/record"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceContextOfReceivedMessages(t *testing.T) {
	received := func(user ...paho.UserProperty) record.Metadata {
		return mqtt.RecordOf(&paho.Publish{Topic: "t", Properties: &paho.PublishProperties{User: user}}).Metadata
	}
	m := received(paho.UserProperty{Key: "tracestate", Value: "a=1"}, paho.UserProperty{Key: "traceparent",
		Value: traceParent})
	if parent, state := m.TraceContext(); parent != traceParent || state != "a=1" ||
		m.Get("mqtt.user.traceparent") != traceParent {
		t.Errorf("the metadata are %v", m)
	}
	if m := received(paho.UserProperty{Key: "traceparent", Value: "x"}); m.Get(record.KeyTraceParent) != "" {
		t.Errorf("an invalid context becomes %v", m)
	}
}

func TestTraceContextOfPublishedMessages(t *testing.T) {
	t.Parallel()
	var got []string
	d, stop := served(t, func(c net.Conn, p *packets.Publish) bool {
		text := string(p.Payload)
		for _, u := range p.Properties.User {
			text += " " + u.Key + "=" + u.Value
		}
		got = append(got, text)
		_, err := (&packets.Puback{PacketID: p.PacketID, Properties: &packets.Properties{}}).WriteTo(c)
		return err == nil
	})
	records := numbered("1", "2", "3", "4")
	records[1].Metadata.SetTraceContext(traceParent, "")
	records[2].Metadata.SetTraceContext(traceParent, "a=1")
	records[3].Metadata.Set(record.KeyTraceParent, "x")
	if n, err := d.Write(t.Context(), records); n != 4 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	stop()
	want := "1|2 traceparent=" + traceParent + "|3 traceparent=" + traceParent + " tracestate=a=1|4"
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("published %q, want %q", text, want)
	}
}

// A message that fits only without its trace context is published without it.
func TestTraceContextThatDoesNotFit(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	user, ended := -1, make(chan struct{})
	go func() {
		defer close(ended)
		serveLimited(l, 100, func(c net.Conn, p *packets.Publish) bool {
			user = len(p.Properties.User)
			_, _ = (&packets.Puback{PacketID: p.PacketID, Properties: &packets.Properties{}}).WriteTo(c)
			return false
		})
	}()
	d := open(t, map[string]string{"url": "mqtt://" + l.Addr().String(), "topic": "a", "sdk.record.format": "template",
		"sdk.record.format.options": `{{ printf "%s" .Payload.After }}`})
	records := numbered(strings.Repeat("x", 50))
	records[0].Metadata.SetTraceContext(traceParent, "")
	if n, err := d.Write(t.Context(), records); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	_ = l.Close()
	<-ended
	if user != 0 {
		t.Errorf("published with %d user properties", user)
	}
}
