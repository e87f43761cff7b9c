package nats_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/nats"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// system is a server with the bare client.
type system struct {
	*server.NATS
	js jetstream.JetStream
	nc *client.Conn
}

func start(t testing.TB, lines ...string) *system {
	t.Helper()
	s := &system{NATS: server.StartNATS(t, 1, lines...)[0]}
	if len(lines) > 0 {
		return s
	}
	var err error
	if s.nc, err = client.Connect(s.URL()); err == nil {
		s.js, err = jetstream.New(s.nc)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nc.Close)
	return s
}

func (s *system) stream(t testing.TB, c jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	st, err := s.js.CreateStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func orders() jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Duplicates: time.Minute}
}

func (s *system) publish(t testing.TB, subject string, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		if _, err := s.js.PublishMsg(t.Context(),
			&client.Msg{Subject: subject, Data: []byte(p), Header: client.Header{"Tenant": {"acme", "two"}}}); err !=
			nil {
			t.Fatal(err)
		}
	}
}

func settings(s *system, more ...string) map[string]string {
	all := map[string]string{"url": s.URL(), "stream": "ORDERS", "timeout": "5s"}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func source(t testing.TB, set map[string]string, pos record.Position) *nats.Source {
	t.Helper()
	return plugintest.OpenSource(t, &nats.Source{}, set, pos)
}

func read(t testing.TB, s sdk.Source, n int) (all []record.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for len(all) < n {
		records, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", text(all), err)
		}
		all = append(all, records...)
	}
	return all
}

func text(records []record.Record) string {
	var all []string
	for i := range records {
		raw, _ := records[i].After.Raw()
		all = append(all, string(raw))
	}
	return strings.Join(all, " ")
}

func ack(t testing.TB, s sdk.Source, n int) {
	t.Helper()
	if err := s.Ack(t.Context(), make([]record.Position, n)); err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, got []record.Record, want string) {
	t.Helper()
	if text(got) != want {
		t.Errorf("got %s, want %s", text(got), want)
	}
}

// TestStream reads in order from the position on, for every kind of stream.
func TestStream(t *testing.T) {
	load.Parallel(t, 3*load.Server)
	for name, retention := range map[string]jetstream.RetentionPolicy{"limits": jetstream.LimitsPolicy,
		"interest": jetstream.InterestPolicy, "work queue": jetstream.WorkQueuePolicy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			c := orders()
			c.Retention = retention
			stream := s.stream(t, c)
			set := settings(s, "subjects", "orders.*")
			if err := (&nats.Source{}).LifecycleOnCreated(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			s.publish(t, "orders.a", "1", "2", "3", "4")
			src := source(t, set, nil)
			records := read(t, src, 4)
			want(t, records, "1 2 3 4")
			md := records[0].Metadata
			if md.Get(record.KeyCollection) != "orders.a" || md.Get("nats.stream") != "ORDERS" ||
				md.Get("nats.sequence") != "1" || md.Get("nats.header.Tenant") != "acme" ||
				md.Get("nats.header.Tenant[1]") != "two" {
				t.Errorf("metadata is %v", md)
			}
			ack(t, src, 2)
			wait.For(t, "two are behind", func() bool {
				r := src.Progress()
				return r.Records != nil && *r.Records == 2
			})
			if err := src.Teardown(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.publish(t, "orders.b.c", "not this one")
			s.publish(t, "orders.b", "5")
			src = source(t, set, records[1].Position)
			want(t, read(t, src, 3), "3 4 5")
			ack(t, src, 3)
			if retention != jetstream.LimitsPolicy {
				wait.For(t, "the stream removes what is acknowledged", func() bool {
					info, err := stream.Info(t.Context())
					return err == nil && info.State.Msgs <= 1 // no message is kept for a consumer
				})
			}
			if err := src.Teardown(t.Context()); err != nil { // a running source creates its consumer again
				t.Fatal(err)
			}
			if err := (&nats.Source{}).LifecycleOnDeleted(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			if info, err := stream.Info(t.Context()); err != nil || info.State.Consumers != 0 {
				t.Errorf("%d consumers are left: %v", info.State.Consumers, err)
			}
		})
	}
}

// TestUpdated removes the consumers of previous settings from the server, and nothing if the consumers are the same.
func TestUpdated(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	stream := s.stream(t, orders())
	set := settings(s)
	if err := (&nats.Source{}).LifecycleOnCreated(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for _, now := range []struct {
		set  map[string]string
		left int
	}{{settings(s, "subjects", "orders.a"), 1}, {settings(s, "consumer", "another"), 0}} {
		if err := (&nats.Source{}).LifecycleOnUpdated(t.Context(), set, now.set); err != nil {
			t.Fatal(err)
		}
		if info, err := stream.Info(t.Context()); err != nil || info.State.Consumers != now.left {
			t.Errorf("%d consumers are left, want %d: %v", info.State.Consumers, now.left, err)
		}
	}
}

// TestMemory checks that received but unread messages take no more memory than the host allows, and no more than
// buffer.maxBytes. The server keeps the rest.
func TestMemory(t *testing.T) {
	load.Parallel(t, load.Server)
	const size, messages, subject = 1000, 50, "orders.a"
	const header = 2*(100+len("Tenant")) + len("acme") + len("two") // counts as well
	for name, bound := range map[string]struct {
		memory int64
		most   string
	}{"of the host": {3 * size, "100000"}, "of the setting": {1 << 30, "3000"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.stream(t, orders())
			s.publish(t, subject, slices.Repeat([]string{strings.Repeat("a", size-header-len(subject))}, messages)...)
			memory, src := &plugintest.Memory{Bytes: bound.memory}, &nats.Source{}
			ctx, set := memory.Context(t.Context()), settings(s, "buffer.maxBytes", bound.most)
			if err := errors.Join(src.Configure(ctx, set), src.Open(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = src.Teardown(context.WithoutCancel(ctx)) })
			wait.For(t, "the memory is used up", func() bool { return memory.Used() == 3*size })
			read(t, src, messages)
			ack(t, src, messages)
			if memory.Used() != 0 || memory.Most() > 3*size {
				t.Errorf("%d bytes are taken, %d at most, want 0 and %d", memory.Used(), memory.Most(), 3*size)
			}
		})
	}
}

// TestReconnects repeats nothing and loses nothing when connections are lost, regardless of the acknowledgements by
// then.
func TestReconnects(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	s.stream(t, orders())
	proxy := network.NewProxy(t, s.Addr)
	src := source(t, settings(s, "url", "nats://"+proxy.Addr()), nil)
	var all []record.Record
	for i := range 8 {
		s.publish(t, "orders.a", fmt.Sprint(3*i), fmt.Sprint(3*i+1), fmt.Sprint(3*i+2))
		if i%3 > 0 {
			before := len(all)
			all = append(all, read(t, src, 2+3*i-len(all))...)
			ack(t, src, len(all)-before-1)
		}
		proxy.Cut()
	}
	s.publish(t, "orders.a", "24")
	all = append(all, read(t, src, 25-len(all))...)
	var wanted []string
	for i := range 25 {
		wanted = append(wanted, fmt.Sprint(i))
	}
	want(t, all, strings.Join(wanted, " "))
	wait.For(t, "the lag is known", func() bool { return src.Progress().Records != nil })
}

// TestStart begins at the creation of the connector, also when it fails before its first message.
func TestStart(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	s.stream(t, orders())
	s.publish(t, "orders.a", "1", "2")
	set := settings(s, "start", "newest")
	if err := (&nats.Source{}).LifecycleOnCreated(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	s.publish(t, "orders.a", "3")
	for range 2 {
		src := source(t, set, nil)
		want(t, read(t, src, 1), "3")
		_ = src.Teardown(t.Context())
	}
}

// TestGap reports which messages were removed before they were read.
func TestGap(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	c := orders()
	c.MaxMsgs = 3
	s.stream(t, c)
	s.publish(t, "orders.a", "1", "2")
	src := source(t, settings(s), nil)
	first := read(t, src, 2)
	_ = src.Teardown(t.Context())
	s.publish(t, "orders.a", "3", "4", "5", "6", "7")
	fails := func(pos record.Position, wanted string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		src := source(t, settings(s), pos)
		if _, err := src.Read(ctx); err == nil || !strings.Contains(err.Error(), "messages were missed") ||
			!strings.Contains(err.Error(), wanted) {
			t.Errorf("got %v, want %s", err, wanted)
		}
		_ = src.Teardown(t.Context())
	}
	goesOn := func(pos record.Position, wanted, missing string) {
		t.Helper()
		src := source(t, settings(s, "gap", "continue"), pos)
		want(t, read(t, src, 3), wanted)
		if text := fmt.Sprint(src.Progress().Skipped); !strings.Contains(text, missing) {
			t.Errorf("left out: %s, want %s", text, missing)
		}
	}
	fails(first[0].Position, "3 messages of stream \"ORDERS\", from 2 to 4, were removed")
	goesOn(first[1].Position, "5 6 7", "from 3 to 4, were removed")
	if err := s.js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	s.stream(t, orders())
	s.publish(t, "orders.a", "8", "9", "10")
	fails(first[1].Position, "was recreated")
	goesOn(first[1].Position, "8 9 10", "was recreated")
}

// TestFallsBehind detects messages that are removed while the source is slower than the stream.
func TestFallsBehind(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	c := orders()
	c.MaxMsgs = 10
	s.stream(t, c)
	src := source(t, settings(s, "maxAckPending", "2"), nil)
	s.publish(t, "orders.a", "1", "2", "3")
	want(t, read(t, src, 2), "1 2")
	for i := range 20 {
		s.publish(t, "orders.a", fmt.Sprint(i))
	}
	ack(t, src, 2)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for {
		got, err := src.Read(ctx)
		if err != nil {
			if !strings.Contains(err.Error(), "were removed before they were read") {
				t.Errorf("got %v", err)
			}
			return
		}
		ack(t, src, len(got))
	}
}

// TestCore receives messages that are published while the source is connected. The source must not answer requests.
func TestCore(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	src := source(t, map[string]string{"url": s.URL(), "type": "core", "subjects": "a.*, b"}, nil)
	wait.For(t, "it is subscribed", func() bool { return !src.Progress().At.IsZero() })
	var answers atomic.Int64
	if _, err := s.nc.Subscribe("answer", func(*client.Msg) { answers.Add(1) }); err != nil {
		t.Fatal(err)
	}
	if err := s.nc.Publish("c", nil); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"a.x", "b"} {
		if err := s.nc.PublishRequest(subject, "answer", []byte(subject)); err != nil {
			t.Fatal(err)
		}
	}
	records := read(t, src, 2)
	want(t, records, "a.x b")
	ack(t, src, 2)
	if err := s.nc.Flush(); err != nil || answers.Load() != 0 {
		t.Errorf("%d answers: %v", answers.Load(), err)
	}
	_ = src.Teardown(t.Context())
	source(t, map[string]string{"url": s.URL(), "type": "core", "subjects": "b"}, records[0].Position)
}

// TestIdentities logs in with a password, a token and an NKey, and checks the error without them.
func TestIdentities(t *testing.T) {
	load.Parallel(t, load.Server)
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()
	public, _ := pair.PublicKey()
	for setting, one := range map[string][2]string{
		"auth.password": {`{user: conduit, password: word}`, "word"},
		"auth.token":    {`{token: word}`, "word"},
		"auth.nkey":     {`{users: [{nkey: ` + public + `}]}`, string(seed)},
	} {
		s := start(t, "authorization: "+one[0])
		set := map[string]string{"url": s.URL(), "type": "core", "subjects": "a"}
		if setting == "auth.password" {
			set["auth.username"] = "conduit"
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		if _, err := source(t, set, nil).Read(ctx); err == nil ||
			!strings.Contains(err.Error(), "the server refused the connection") {
			t.Errorf("%s: got %v", setting, err)
		}
		set[setting] = one[1]
		src := source(t, set, nil)
		wait.For(t, "it is subscribed", func() bool { return !src.Progress().At.IsZero() })
	}
}

// TestCredentials logs in with the credentials file of a user of an account: a JWT and its key.
func TestCredentials(t *testing.T) {
	load.Parallel(t, load.Server)
	pair := func(make func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, public string) {
		pair, err := make()
		if err == nil {
			public, err = pair.PublicKey()
		}
		if err != nil {
			t.Fatal(err)
		}
		return pair, public
	}
	operator, operatorID := pair(nkeys.CreateOperator)
	account, accountID := pair(nkeys.CreateAccount)
	user, userID := pair(nkeys.CreateUser)
	issue := func(by nkeys.KeyPair, issuer, subject, claims string) string {
		encode := base64.RawURLEncoding.EncodeToString
		text := encode([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." +
			encode(fmt.Appendf(nil, `{"jti":"1","iat":1,"iss":%q,"sub":%q,"name":"test","nats":{"version":2,%s}}`,
				issuer,
				subject, claims))
		signature, err := by.Sign([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return text + "." + encode(signature)
	}
	const unlimited = `"subs":-1,"data":-1,"payload":-1`
	s := start(t, fmt.Sprintf("operator: %q", issue(operator, operatorID, operatorID, `"type":"operator"`)),
		"resolver: MEMORY", "jetstream: false", fmt.Sprintf("resolver_preload: {%s: %q}", accountID,
			issue(operator, operatorID, accountID,
				`"type":"account","limits":{`+unlimited+
					`,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}`)))
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
		issue(account, accountID, userID, `"type":"user",`+unlimited), seed)
	src := source(t, map[string]string{"url": s.URL(), "type": "core", "subjects": "a", "auth.credentials": file}, nil)
	wait.For(t, "it is subscribed", func() bool { return !src.Progress().At.IsZero() })
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	anonymous := source(t, map[string]string{"url": s.URL(), "type": "core", "subjects": "a"}, nil)
	if _, err := anonymous.Read(ctx); err == nil ||
		!strings.Contains(err.Error(), "the server refused the connection") {
		t.Errorf("without credentials: %v", err)
	}
}

// TestTLS logs in with a certificate, and trusts only the authorities that the settings name.
func TestTLS(t *testing.T) {
	load.Parallel(t, load.Server)
	dir := server.Dir(t)
	authority := network.NewAuthority(t)
	cert, key := authority.Pair(t)
	for name, text := range map[string]string{"cert": cert, "key": key, "ca": authority.PEM} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, fmt.Sprintf("tls: {cert_file: %[1]q, key_file: %[2]q, ca_file: %[3]q, verify_and_map: true}",
		filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")),
		`authorization: {users: [{user: "CN=test"}]}`)
	set := map[string]string{"url": "tls://" + s.Addr, "type": "core", "subjects": "a", "tls.ca": authority.PEM}
	without := source(t, set, nil)
	wait.For(t, "the server misses the certificate", func() bool {
		return strings.Contains(without.Progress().Warning, "certificate")
	})
	set["tls.cert"], set["tls.key"] = cert, key
	src := source(t, set, nil)
	wait.For(t, "it is subscribed", func() bool { return !src.Progress().At.IsZero() })
	d := open(t, map[string]string{"url": "tls://" + s.Addr, "type": "core", "subject": "a", "tls.ca": authority.PEM,
		"tls.cert": cert, "tls.key": key,
		"sdk.record.format": "template", "sdk.record.format.options": `{{ printf "%s" .Payload.After }}`})
	if n, err := d.Write(t.Context(), []record.Record{made("a", "x")}); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	want(t, read(t, src, 1), "x")
	other, _, _ := network.Certificate(t)
	set["tls.ca"] = other
	distrusts := source(t, set, nil)
	wait.For(t, "the server is not trusted", func() bool {
		return strings.Contains(distrusts.Progress().Warning, "unknown authority")
	})
}

// open returns an opened destination.
func open(t testing.TB, set map[string]string) sdk.Destination {
	t.Helper()
	d := sdk.Standard(nats.Connector()).NewDestination()
	if err := d.Configure(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func made(to, payload string) record.Record {
	return record.Record{Position: record.Position(payload), Operation: record.OperationCreate,
		After: record.Raw([]byte(payload)),
		Metadata: record.NewMetadata(map[string]string{"to": to, "nats.header.X": "1",
			"nats.header.Nats-Msg-Id": "no"})}
}

// TestPublish publishes, refuses records that cannot be published, and lets the stream drop duplicates.
func TestPublish(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	c := orders()
	c.MaxMsgSize = 500
	s.stream(t, c)
	set := map[string]string{"url": s.URL(), "subject": `orders.{{ index .Metadata "to" }}`, "headers": "true",
		"retry.timeout": "0s", "timeout": "2s",
		"sdk.record.format": "template", "sdk.record.format.options": `{{ printf "%s" .Payload.After }}`}
	d := open(t, set)
	four := []record.Record{made("a", "1"), made("b", "2"), made("*", "3"), made("b", "4")}
	if n, err := d.Write(t.Context(), four); n != 2 || err == nil ||
		!strings.Contains(err.Error(), `cannot publish to "orders.*"`) {
		t.Errorf("wrote %d: %v", n, err)
	}
	large := made("a", strings.Repeat("x", 1000))
	if n, err := d.Write(t.Context(), []record.Record{made("a", "5"), large, made("a", "6")}); n != 1 || err == nil ||
		!strings.Contains(err.Error(), "the stream refused the record") {
		t.Errorf("wrote %d: %v", n, err)
	}
	huge := made("a", strings.Repeat("x", 2<<20))
	if n, err := d.Write(t.Context(), []record.Record{huge}); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "that the server accepts") {
		t.Errorf("wrote %d: %v", n, err)
	}
	again := []record.Record{made("b", "2"), made("a", "5"), made("a", "6"), made("a", "7")}
	if n, err := open(t, set).Write(t.Context(), again); n != 4 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	records := read(t, source(t, settings(s), nil), 5)
	want(t, records, "1 2 5 6 7")
	if records[0].Metadata.Get("nats.header.X") != "1" || records[0].Metadata.Get("nats.header.Nats-Msg-Id") == "no" {
		t.Errorf("metadata is %v", records[0].Metadata)
	}
	set["subject"] = "nowhere"
	n, err := open(t, set).Write(t.Context(), []record.Record{made("a", "1")})
	if lost, ok := err.(interface{ Lost() bool }); n != 0 || !ok || !lost.Lost() ||
		!strings.Contains(err.Error(), `no stream has the subject "nowhere"`) {
		t.Errorf("wrote %d: %v, want no record's fault", n, err)
	}
	set["type"] = "core"
	if n, err := open(t, set).Write(t.Context(), []record.Record{made("a", "1")}); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestContract runs the conformance tests of sources and destinations.
func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	n := 0
	stream := func(t testing.TB) (set map[string]string, subject string) {
		n++
		c := jetstream.StreamConfig{Name: fmt.Sprintf("S%d", n), Subjects: []string{fmt.Sprintf("s%d", n)}}
		s.stream(t, c)
		return map[string]string{"url": s.URL(), "stream": c.Name}, c.Subjects[0]
	}
	plugintest.Run(t, plugintest.Target{Connector: nats.Connector(), Timeout: 10 * time.Second,
		Source: func(t testing.TB, n int) map[string]string {
			set, subject := stream(t)
			for i := range n {
				s.publish(t, subject, fmt.Sprint(i))
			}
			return set
		},
		Destination: func(t testing.TB) map[string]string {
			set, subject := stream(t)
			set["subject"], set["sdk.record.format"] = subject, "template"
			set["sdk.record.format.options"] = `{{ with .Payload.After }}{{ printf "%s" . }}{{ end }}`
			return set
		},
		Written: func(t testing.TB, set map[string]string) (all []string) {
			st, err := s.js.Stream(t.Context(), set["stream"])
			if err != nil {
				t.Fatal(err)
			}
			for i := uint64(1); i <= st.CachedInfo().State.LastSeq; i++ {
				m, err := st.GetMsg(t.Context(), i)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, string(m.Data))
			}
			return all
		}})
}

// TestBadItems reads messages that are larger than the buffer, have odd headers, or are empty, and the messages after
// them.
func TestBadItems(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	s.stream(t, orders())
	s.publish(t, "orders.a", "one", strings.Repeat("x", 200_000), "", "\xff\x00")
	m := &client.Msg{Subject: "orders.\xe9", Header: client.Header{"Odd": {"\xff"}}, Data: []byte("odd")}
	if err := s.nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	s.publish(t, "orders.a", "last")
	for _, r := range read(t, source(t, settings(s, "buffer.maxBytes", "1000"), nil), 6) {
		if _, err := record.AppendJSON(nil, &r); err != nil {
			t.Error(err)
		}
		if _, err := record.AppendWire(nil, &r); err != nil {
			t.Error(err)
		}
	}
}

// TestTooManyHeaders skips messages with more headers than the limit. The messages around them arrive in order.
func TestTooManyHeaders(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	const empty, distinct = 150_000, 130_000 // lines
	many := map[string]client.Header{"values of one": {"a": make([]string, empty)}, "distinct": {}}
	for i := range distinct {
		many["distinct"][strconv.FormatInt(int64(i), 36)] = []string{""}
	}
	for name, header := range many {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			src := source(t, map[string]string{"url": s.URL(), "type": "core", "subjects": "a"}, nil)
			wait.For(t, "it is subscribed", func() bool { return !src.Progress().At.IsZero() })
			for payload, h := range []client.Header{nil, header, header, nil, {"x": {"y"}}} {
				if err := s.nc.PublishMsg(&client.Msg{Subject: "a", Header: h,
					Data: []byte{byte('0' + payload)}}); err != nil {
					t.Fatal(err)
				}
			}
			records := read(t, src, 3)
			want(t, records, "0 3 4")
			if len(records[1].Metadata) > 1 || records[2].Metadata.Get("nats.header.x") != "y" {
				t.Errorf("metadata is %v and %v", records[1].Metadata, records[2].Metadata)
			}
			text := fmt.Sprint(src.Progress().Skipped)
			if !strings.Contains(text, "message with subject a it has more than 100,000 headers") {
				t.Errorf("left out: %s", text)
			}
		})
	}
}
