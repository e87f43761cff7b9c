package kafka_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// interpreter is a proxy in front of each broker of the mock cluster. It reports the versions of requests that the
// cluster really understands, and it replaces the addresses of the brokers by its own.
type interpreter struct {
	t  *testing.T
	at map[string]string // address of the interpreter, by that of a broker
}

// understood lists the versions of requests that the mock cluster understands. The cluster claims to understand more.
var understood = kversion.V2_3_0()

func init() { understood.SetMaxKeyVersion(kmsg.ListOffsets.Int16(), 3) }

// interpreted returns the addresses at which clients reach the brokers.
func interpreted(t *testing.T, brokers ...string) (addrs []string) {
	t.Helper()
	i := &interpreter{t, map[string]string{}}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	listeners := map[string]net.Listener{}
	for _, broker := range brokers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[broker], i.at[broker] = l, l.Addr().String()
		addrs = append(addrs, i.at[broker])
		t.Cleanup(func() { _ = l.Close() })
	}
	for broker, l := range listeners {
		running.Go(func() {
			for {
				client, err := l.Accept()
				if err != nil {
					return
				}
				running.Go(func() { i.serve(client, broker) })
			}
		})
	}
	return addrs
}

// asked identifies the kind and version of a request.
type asked struct{ key, version int16 }

func (i *interpreter) serve(client net.Conn, addr string) {
	defer func() { _ = client.Close() }()
	broker, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = broker.Close() }()
	var requests sync.Map // asked by correlation id
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		defer func() { _ = client.Close() }()
		for {
			answer, err := readMessage(broker)
			if err != nil {
				return
			}
			if a, ok := requests.Load(binary.BigEndian.Uint32(answer)); ok {
				answer = i.translate(answer, a.(asked))
			}
			if writeMessage(client, answer) != nil {
				return
			}
		}
	})
	for {
		request, err := readMessage(client)
		if err != nil {
			_ = broker.Close()
			return
		}
		a := asked{int16(binary.BigEndian.Uint16(request)), int16(binary.BigEndian.Uint16(request[2:]))}
		if a.key == kmsg.ApiVersions.Int16() && a.version > 2 {
			err = writeMessage(client, refuseVersion(request[4:8]))
		} else {
			requests.Store(binary.BigEndian.Uint32(request[4:]), a)
			err = writeMessage(broker, request)
		}
		if err != nil {
			_ = broker.Close()
			return
		}
	}
}

// refuseVersion returns the answer of a broker that supports no version of ApiVersions after 2.
func refuseVersion(correlation []byte) []byte {
	r := kmsg.NewPtrApiVersionsResponse()
	r.ErrorCode = 35 // UNSUPPORTED_VERSION
	key := kmsg.NewApiVersionsResponseApiKey()
	key.ApiKey, key.MaxVersion = kmsg.ApiVersions.Int16(), 2
	r.ApiKeys = append(r.ApiKeys, key)
	return r.AppendTo(append([]byte(nil), correlation...))
}

// translate replaces the addresses of brokers in an answer with the addresses of the interpreter.
func (i *interpreter) translate(answer []byte, a asked) []byte {
	r := kmsg.ResponseForKey(a.key)
	r.SetVersion(a.version)
	header := 4
	if r.IsFlexible() {
		header++ // no tags
	}
	move := func(host *string, port *int32) {
		if at, ok := i.at[net.JoinHostPort(*host, strconv.Itoa(int(*port)))]; ok {
			name, text, _ := strings.Cut(at, ":")
			n, _ := strconv.Atoi(text)
			*host, *port = name, int32(n)
		}
	}
	switch r := r.(type) {
	case *kmsg.ApiVersionsResponse:
		if err := r.ReadFrom(answer[header:]); err != nil {
			i.t.Errorf("versions of the mock cluster: %v", err)
		}
		for k := range r.ApiKeys {
			key := &r.ApiKeys[k]
			if most, ok := understood.LookupMaxKeyVersion(key.ApiKey); ok {
				key.MaxVersion = min(key.MaxVersion, most)
			}
		}
	case *kmsg.MetadataResponse:
		if err := r.ReadFrom(answer[header:]); err != nil {
			i.t.Errorf("metadata of the mock cluster: %v", err)
		}
		for k := range r.Brokers {
			move(&r.Brokers[k].Host, &r.Brokers[k].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		if err := r.ReadFrom(answer[header:]); err != nil {
			i.t.Errorf("coordinator of the mock cluster: %v", err)
		}
		move(&r.Host, &r.Port)
		for k := range r.Coordinators {
			move(&r.Coordinators[k].Host, &r.Coordinators[k].Port)
		}
	default:
		return answer
	}
	return r.AppendTo(answer[:header:header])
}

// readMessage returns a request or an answer without its size.
func readMessage(r io.Reader) ([]byte, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(r, size); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, err
	}
	if len(message) < 8 {
		return nil, fmt.Errorf("a message has %d bytes", len(message))
	}
	return message, nil
}

func writeMessage(w io.Writer, message []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
	return err
}
