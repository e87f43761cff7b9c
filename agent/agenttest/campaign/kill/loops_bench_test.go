package kill_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
)

// bareLoop, when set, makes the test binary a bare loop: a loopOf as JSON.
const bareLoop = "CONDUIT_KILL_LOOP"

// loopOf is what a bare loop moves: from a file in to a system, or from a system to a file out. It does
// what the pipeline beside it does with the library that the connector has, in a process like that of an agent.
type loopOf struct {
	Name, In, Out, Addr string
	Window              int // messages that may be under way; 0: as the library has it
}

var bareLoops = map[string]func(ctx context.Context, l loopOf) error{"http": sendLines, "producer": produceLines, "consumer": consume}

func runBareLoop(ctx context.Context, spec string) error {
	var l loopOf
	if err := json.Unmarshal([]byte(spec), &l); err != nil {
		return err
	}
	return bareLoops[l.Name](ctx, l)
}

// benchLoop runs a bare loop in a process of its own. The time is that of the whole, as for an agent.
func benchLoop(b *testing.B, l loopOf) {
	b.Helper()
	spec, err := json.Marshal(l)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), bareLoop+"="+string(spec))
	b.StartTimer()
	out, err := cmd.CombinedOutput()
	b.StopTimer()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	use(kill.Usage{CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()})
}

// eachLine calls do with each line of a file, which do may keep.
func eachLine(path string, do func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); ; {
		if !s.Scan() {
			return s.Err()
		}
		if err := do(bytes.Clone(s.Bytes())); err != nil {
			return err
		}
	}
}

// sendLines sends the lines of a file in requests, one after the other.
func sendLines(ctx context.Context, l loopOf) error {
	client, body, n := &http.Client{}, []byte(nil), 0
	defer client.CloseIdleConnections()
	send := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Addr, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode/100 != 2 {
			err = errors.Join(err, fmt.Errorf("answered %d", resp.StatusCode))
		}
		body, n = body[:0], 0
		return errors.Join(err, resp.Body.Close())
	}
	err := eachLine(l.In, func(line []byte) error {
		body = append(append(body, line...), '\n')
		if n++; n < httpBatch {
			return nil
		}
		return send()
	})
	if err != nil || n == 0 {
		return err
	}
	return send()
}

// produceLines produces the lines of a file, with the defaults of the library: all replicas have them, and none is there twice.
func produceLines(ctx context.Context, l loopOf) error {
	opts := []kgo.Opt{kgo.SeedBrokers(l.Addr)}
	if l.Window > 0 { // as an agent has under way
		opts = append(opts, kgo.MaxBufferedRecords(l.Window), kgo.ProducerLinger(time.Millisecond))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	var failed error
	err = eachLine(l.In, func(line []byte) error {
		client.Produce(ctx, &kgo.Record{Topic: "bench", Value: line}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
		return nil
	})
	return errors.Join(err, client.Flush(ctx), failed)
}

// syncEvery is how often an agent syncs what it wrote, and has positions saved.
const syncEvery = 50 * time.Millisecond

// output writes to a file, and syncs it as often as an agent does.
type output struct {
	*os.File
	synced time.Time
	done   func() error // is called when all is synced
}

// write writes text, which is "" when nothing more comes.
func (o *output) write(text []byte) error {
	if _, err := o.File.Write(text); err != nil {
		return err
	}
	if len(text) > 0 && time.Since(o.synced) < syncEvery {
		return nil
	}
	o.synced = time.Now()
	return errors.Join(o.Sync(), o.done())
}

// consume reads all messages in a group. To a file it writes the payload of each as a line or, as l.In says, what the agent writes
// of it, and commits the offsets of what is synced.
func consume(ctx context.Context, l loopOf) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.Addr), kgo.ConsumeTopics("bench"), kgo.ConsumerGroup("bench"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	out := output{done: func() error { return client.CommitUncommittedOffsets(ctx) }}
	if l.Out != "" {
		if out.File, err = os.Create(l.Out); err != nil {
			return err
		}
		defer func() { _ = out.Close() }()
	}
	var text []byte
	for n := 0; n < kafkaRecords; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		n += fetches.NumRecords()
		if l.Out == "" {
			continue
		}
		text = text[:0]
		readAt := time.Now().UnixNano()
		fetches.EachRecord(func(m *kgo.Record) {
			if l.In == "records" {
				text = appendMessage(text, m, readAt)
			} else {
				text = append(append(text, m.Value...), '\n')
			}
		})
		if err := out.write(text); err != nil {
			return err
		}
	}
	if l.Out == "" {
		return nil
	}
	return out.write(nil)
}

// appendMessage appends what an agent writes of a message.
func appendMessage(dst []byte, m *kgo.Record, readAt int64) []byte {
	var buf [256]byte
	position := strconv.AppendInt(append(buf[:0], `{"Topic":"bench","Partition":0,"Offset":`...), m.Offset, 10)
	position = append(position, `,"@resume":1,"GroupID":"bench","Next":{"bench":{"0":1000000}},"IDs":{"bench":"0123456789abcdef01234w=="}}`...)
	dst = base64.StdEncoding.AppendEncode(append(dst, `{"position":"`...), position)
	dst = append(dst, `","operation":"create","metadata":{"conduit.source.connector.id":"bench:in","kafka.offset":"`...)
	dst = strconv.AppendInt(dst, m.Offset, 10)
	dst = strconv.AppendInt(append(dst, `","kafka.partition":"`...), int64(m.Partition), 10)
	dst = strconv.AppendInt(append(dst, `","kafka.timestamp":"`...), m.Timestamp.UnixMilli(), 10)
	dst = append(append(dst, `","kafka.topic":"`...), m.Topic...)
	dst = append(append(dst, `","opencdc.collection":"`...), m.Topic...)
	dst = strconv.AppendInt(append(dst, `","opencdc.createdAt":"`...), m.Timestamp.UnixNano(), 10)
	dst = strconv.AppendInt(append(dst, `","opencdc.readAt":"`...), readAt, 10)
	dst = base64.StdEncoding.AppendEncode(append(dst, `"},"key":null,"payload":{"before":null,"after":"`...), m.Value)
	return append(dst, "\"}}\n"...)
}
