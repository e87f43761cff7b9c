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

// loopOf configures a bare loop: from a file in to a system, or from a system to a file out. It does the work of the
// corresponding pipeline with the library of the connector, in a separate process like an agent.
type loopOf struct {
	Name, In, Out, Addr string
	Window              int // messages in flight; 0: the default of the library
}

var bareLoops = map[string]func(ctx context.Context, l loopOf) error{"http": sendLines, "producer": produceLines,
	"consumer": consume}

func runBareLoop(ctx context.Context, spec string) error {
	var l loopOf
	if err := json.Unmarshal([]byte(spec), &l); err != nil {
		return err
	}
	return bareLoops[l.Name](ctx, l)
}

// benchLoop runs a bare loop in a separate process. It measures the time of the whole process, as for an agent.
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

// eachLine calls do with each line of a file. do may keep the line.
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

// sendLines sends the lines of a file in sequential requests.
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

// produceLines produces the lines of a file with the defaults of the library: all replicas acknowledge, and messages
// are deduplicated.
func produceLines(ctx context.Context, l loopOf) error {
	opts := []kgo.Opt{kgo.SeedBrokers(l.Addr)}
	if l.Window > 0 { // the same number as an agent has in flight
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

// syncEvery is the interval at which an agent syncs its output and saves positions.
const syncEvery = 50 * time.Millisecond

// output writes to a file, and syncs it at the same interval as an agent does.
type output struct {
	*os.File
	synced time.Time
	done   func() error // is called after each sync
}

// write writes text; "" means that nothing more follows.
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

// consume reads all messages in a group. To a file it writes the payload of each message as a line or, depending on
// l.In, the same text as an agent, and commits the offsets of synced messages.
func consume(ctx context.Context, l loopOf) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.Addr), kgo.ConsumeTopics("bench"), kgo.ConsumerGroup("bench"),
		kgo.DisableAutoCommit(),
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

// appendMessage appends a message in the output format of an agent.
func appendMessage(dst []byte, m *kgo.Record, readAt int64) []byte {
	var buf [256]byte
	position := strconv.AppendInt(append(buf[:0], `{"Topic":"bench","Partition":0,"Offset":`...), m.Offset, 10)
	position = append(position,
		`,"@resume":1,"GroupID":"bench","Next":{"bench":{"0":1000000}},"IDs":{"bench":"0123456789abcdef01234w=="}}`...)
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
