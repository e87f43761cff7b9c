package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"time"
)

var observers = suite{
	name:    "observers",
	title:   "What inspectors cost, generator → file",
	columns: throughput.columns,
	cases: []testCase{
		watched("no inspector", fromGenerator("builtin", fast), nil),
		watched("metrics scraped every second", fromGenerator("builtin", fast), scrape),
		watched("an inspector of the source", fromGenerator("builtin", fast), inspect),
		watched("1,000 inspectors of the source", fromGenerator("builtin", fast), inspectors(1000)),
		watched("executables, no inspector", fromGenerator("standalone", fast), nil),
		watched("executables, an inspector of the source", fromGenerator("standalone", fast), inspect),
	},
}

func watched(name string, pipelines []string, by observer) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		f, err := b.pass(ctx, pipelines, by)
		return f.values(), err
	}}
}

// scrape reads the metrics immediately and then every second.
func scrape(ctx context.Context, _ *bench, a *agent) (end func() error, err error) {
	address, err := a.address(ctx)
	if err != nil {
		return nil, err
	}
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			if err := get("http://"+address+"/metrics", io.Discard); err != nil {
				failed <- err
				return
			}
			select {
			case <-ticker.C:
			case <-stop:
				failed <- nil
				return
			}
		}
	}()
	return func() error { close(stop); return <-failed }, nil
}

func get(url string, to io.Writer) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}

// inspect shows the records of the source with the command.
func inspect(ctx context.Context, b *bench, a *agent) (end func() error, err error) {
	address, err := a.address(ctx)
	if err != nil {
		return nil, err
	}
	seen := new(counter)
	cmd := exec.CommandContext(ctx, b.binary, "connectors", "inspect", "p0:src", "--api.address", address)
	cmd.Stdout = seen
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if *seen == 0 {
			return fmt.Errorf("the inspector showed nothing")
		}
		return nil
	}, nil
}

// inspectors has n clients in this process that inspect the records of the source over WebSocket.
func inspectors(n int) observer {
	return func(ctx context.Context, _ *bench, a *agent) (end func() error, err error) {
		address, err := a.address(ctx)
		if err != nil {
			return nil, err
		}
		var conns []net.Conn
		seen := make([]counter, n)
		var reading sync.WaitGroup
		for i := range n {
			conn, err := upgrade(address, "/v1/connectors/p0:src/inspect")
			if err != nil {
				return nil, errors.Join(err, closeAll(conns))
			}
			conns = append(conns, conn)
			reading.Go(func() { _, _ = io.Copy(&seen[i], conn) }) // until it is closed
		}
		return func() error {
			err := closeAll(conns)
			reading.Wait()
			if slices.Contains(seen, 0) {
				err = errors.Join(err, errors.New("an inspector showed nothing"))
			}
			return err
		}, nil
	}
}

// upgrade opens a WebSocket.
func upgrade(address, path string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	request := "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	const want = "HTTP/1.1 101 "
	answer := make([]byte, len(want))
	_, err = io.WriteString(conn, request)
	if err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	if err == nil && string(answer) != want {
		err = fmt.Errorf("%s answers %q", path, answer)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func closeAll(conns []net.Conn) (err error) {
	for _, conn := range conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// counter counts the bytes that are written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
