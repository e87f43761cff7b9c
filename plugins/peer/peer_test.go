package peer_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/eclipse/paho.golang/packets"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// packet returns a packet of MySQL.
func packet(payload string) string {
	return string([]byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), 1}) + payload
}

// TestChecks reads messages of servers, whole and byte by byte. Valid messages pass unchanged.
func TestChecks(t *testing.T) {
	t.Parallel()
	checkers := map[string]func() peer.Checker{
		"Redis": func() peer.Checker { return &peer.Redis{} }, "MySQL": func() peer.Checker { return &peer.MySQL{} },
		"NATS": func() peer.Checker {
			return peer.NewNATS()
		}, "PostgreSQL": func() peer.Checker { return &peer.Postgres{} },
		"MQTT": func() peer.Checker { return &peer.MQTT{} },
	}
	column, eof := packet("\x03def"), packet("\xfe\x00\x00\x02\x00")
	for _, c := range []struct{ protocol, sends, why string }{
		{"Redis", "+OK\r\n:12\r\n-ERR " +
			"no\r\n$3\r\nabc\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\na\r\n+OK\r\n", ""},
		{"Redis", "*2\r\n$1\r\na\r\n$536870913\r\n", "a value of 536870913 bytes"},
		{"Redis", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n+OK\r\n", ""},
		{"Redis", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "nested"},
		{"Redis", "$3\r\nabcd\r\n", "longer than announced"},
		{"Redis", "+OK\n", "does not end with CR LF"},
		{"MySQL", packet("\x00\x00\x00\x02\x00\x00\x00") + packet("\xff\x15\x04#28000no"), ""},
		{"MySQL", packet("\x01") + column + eof + packet("\x01a") + packet("\xfb") + eof + packet(
			"\x01") + column + eof + eof, ""},
		{"MySQL", packet("\x01") + column + eof + packet("\x01a") + eof + packet("\xfc\x01\x10"), "4097 columns"},
		{"MySQL", packet("\xfc\x00\x10"), ""},
		{"MySQL", packet("\xfb/etc/passwd"), "a file of this host"},
		{"NATS", "INFO {}\r\nPING\r\nMSG a 1 3\r\nabc\r\nMSG a 1 b 0\r\n\r\nHMSG a 1 2 3\r\nabc\r\n+OK\r\n-ERR 'x'\r\n",
			""},
		{"NATS", "MSG a 1 3\r\nabc\r\nMSG a 1 67108865\r\n", "announces a message of 67108865 bytes"},
		{"NATS", "HMSG a 1 4 3\r\n", "longer than the message"},
		{"NATS", "MSG a 3\r\n", "2 fields"},
		{"PostgreSQL", "Z\x00\x00\x00\x05IE\x00\x00\x00\x06ab1\x00\x00\x00\x04", ""},
		{"PostgreSQL", "Z\x00\x00\x00\x05IE\x00\x20\x00\x00", "type 'E' with 2097148 bytes"},
		{"PostgreSQL", "T\x00\x00\x00\x00", "type 'T'"},
		{"MQTT", "\x20\x03\x00\x00\x00\xd0\x00\x30\x80\x01" + strings.Repeat("a", 128), ""},
		{"MQTT", "\x30\xff\xff\xff\xff\x01", "malformed"},
		{"MQTT", "\x32\x09\x00\x01t\x00\x07\x02\x01\x00x\xd0\x00\x30\x05\x00\x01t\x00x\xd0\x00", ""},
		{"MQTT", "\x30\x80\x80\x40\x00\x01t\x80\x80\x80\x01", "longer than the message"},
		{"MQTT", "\x30\x80\x80\x80\x08\x00\x01t\x80\x80\x80\x80", "malformed"},
		{"MQTT", "\x90\x80\x80\x80\x08", "a packet of type 9 with 16777216 bytes"},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(c.sends),
			"in bytes": iotest.OneByteReader(strings.NewReader(c.sends))} {
			got, err := io.ReadAll(peer.NewReader(in, checkers[c.protocol]()))
			violation := new(peer.Error)
			switch {
			case c.why == "" && (err != nil || string(got) != c.sends):
				t.Errorf("%s %q %s: %v after %q", c.protocol, c.sends, name, err, got)
			case c.why != "" && (!errors.As(err, &violation) || !strings.Contains(err.Error(), c.why)):
				t.Errorf("%s %q %s: %v, want %q", c.protocol, c.sends, name, err, c.why)
			}
		}
	}
}

// TestOverwritten checks messages with too many headers or properties: the client reads a few instead, and the rest of
// the message and the next one unchanged.
func TestOverwritten(t *testing.T) {
	t.Parallel()
	headers := func(n int) string { return "NATS/1.0\r\n" + strings.Repeat("a:b\r\n", n) + "\r\n" }
	message := func(headers string) string {
		return fmt.Sprintf("HMSG a 1 %d %d\r\n%sab\r\n", len(headers), len(headers)+2, headers)
	}
	const next = "MSG a 1 1\r\nx\r\n"
	for _, n := range []int{99_990, 99_998, 99_999, 100_000, 100_010, 100_020, 250_000} {
		for name, in := range readers(message(headers(n)) + next) {
			if name == "in bytes" && n != 99_999 && n != 100_010 {
				continue // takes long; of either outcome, one is enough
			}
			got, err := io.ReadAll(peer.NewReader(in, peer.NewNATS()))
			if err != nil {
				t.Fatal(err)
			}
			end := "\r\n\r\nab\r\n" + next
			if len(got) != len(message(headers(n))+next) || !strings.HasSuffix(string(got), end) {
				t.Errorf("%d headers, %s: it ends with %q", n, name, got[len(got)-2*len(end):])
			}
			lines, left := bytes.Count(got, []byte("\n")), bytes.Contains(got, []byte("\r\n"+peer.LeftOut+":"))
			if lines > 100_030 || left != (n > 100_020) && n != 100_010 && n != 100_020 {
				t.Errorf("%d headers, %s: %d lines, left out: %t", n, name, lines, left)
			}
		}
	}
	around := 5 + len(peer.LeftOut)
	longest := 17 * (around + 1<<16 - 1) // properties of the maximum length
	for i, n := range []int{1<<20 - 1, 1<<20 + 1, 2<<20 - 1, 2 << 20, longest, longest + 1, longest + around - 1,
		longest + around} {
		properties := strings.Repeat("\x26\x00\x00\x00\x00", n/5+1)[:n]
		for qos, id := range []string{"", "\x00\x07"} {
			if i != 1 && qos != i%2 {
				continue // the QoS decides only whether there is an ID before the properties
			}
			body := "\x00\x01t" + id + length(n) + properties + "payload"
			sent := string(rune(0x30|qos<<1)) + length(len(body)) + body + "\x30\x05\x00\x01t\x00x"
			for name, in := range readers(sent) {
				if name == "in bytes" && (i != 1 || qos == 0) {
					continue // takes long, and the cut makes no difference then
				}
				r := bufio.NewReader(peer.NewReader(in, &peer.MQTT{}))
				for _, want := range []string{"payload", "x"} {
					packet, err := packets.ReadPacket(r)
					if err != nil {
						t.Fatalf("%d bytes, QoS %d, %s: %v", n, qos, name, err)
					}
					p := packet.Content.(*packets.Publish)
					if string(p.Payload) != want || n > 1<<20 && len(p.Properties.User) > 100 {
						t.Errorf("%d bytes, QoS %d, %s: %d properties and %.20q", n, qos, name, len(p.Properties.User),
							p.Payload)
					}
					if want == "payload" && n > 1<<20 && p.Properties.User[0].Key != peer.LeftOut {
						t.Errorf("%d bytes, QoS %d, %s: the properties are still there", n, qos, name)
					}
				}
			}
		}
	}
}

// length returns a length of MQTT.
func length(n int) (text string) {
	for ; n >= 0x80; n >>= 7 {
		text += string([]byte{byte(n) | 0x80})
	}
	return text + string([]byte{byte(n)})
}

func readers(s string) map[string]io.Reader {
	return map[string]io.Reader{"whole": strings.NewReader(s), "in bytes": iotest.OneByteReader(strings.NewReader(s))}
}

// TestPrepared follows the answers to a statement that is prepared and executed, in which the same bytes have another
// meaning.
func TestPrepared(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer there.Close()
	c := peer.NewMySQL(here, true)
	defer c.Close()
	exchange := func(command, answer string) error {
		go func() {
			_, _ = io.CopyN(io.Discard, there, int64(len(command)))
			_, _ = io.WriteString(there, answer)
		}()
		if _, err := io.WriteString(c, command); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(answer))
		_, err := io.ReadFull(c, got)
		return err
	}
	// Two parameters and a column, whose descriptions look like results.
	if err := exchange("\x01\x00\x00\x00\x16", packet("\x00\x01\x00\x00\x00\x01\x00\x02\x00\x00\x00\x00")+packet(
		"\xfc\xff\xff")+packet("\xfc\xff\xff")+packet("\xfc\xff\xff")); err != nil {
		t.Error(err)
	}
	// A row that begins with 0 like an OK message, but is not one.
	if err := exchange("\x01\x00\x00\x00\x17", packet("\x01")+packet("\x03def")+packet("\x00\x00\x05")+packet(
		"\xfe\x00\x00\x02\x00\x00\x00")); err != nil {
		t.Error(err)
	}
	if err := exchange("\x01\x00\x00\x00\x03", packet("\xfd\xff\xff\xff")); err == nil || !strings.Contains(err.Error(),
		"16777215 columns") {
		t.Errorf("got %v", err)
	}
	if c.Err() == nil {
		t.Error("there was no violation")
	}
}

// TestMaxMessage checks that a message may have half of the memory.
func TestMaxMessage(t *testing.T) {
	for limit, want := range map[int64]int64{1 << 20: 16 << 20, 300 << 20: 150 << 20, 1 << 40: 1 << 30} {
		before := debug.SetMemoryLimit(limit)
		got := peer.MaxMessage()
		debug.SetMemoryLimit(before)
		if got != want {
			t.Errorf("with %d bytes, a message may have %d, want %d", limit, got, want)
		}
	}
}

// TestHeaders checks a server that sends more headers than a client keeps.
func TestHeaders(t *testing.T) {
	t.Parallel()
	for size, fits := range map[int]bool{peer.MaxHeader / 2: true, 2 * peer.MaxHeader: false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", size))
		}))
		resp, err := (&http.Client{Transport: peer.Transport()}).Get(s.URL)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != fits {
			t.Errorf("%d bytes of headers: %v", size, err)
		}
		s.Close()
	}
}
