package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"
)

var observers = suite{
	name:    "observers",
	title:   "What looking on costs, generator → file",
	columns: throughput.columns,
	cases: []testCase{
		watched("nobody looks", fromGenerator("builtin", fast), nil),
		watched("metrics scraped every second", fromGenerator("builtin", fast), scrape),
		watched("an inspector of the source", fromGenerator("builtin", fast), inspect),
		watched("executables, nobody looks", fromGenerator("standalone", fast), nil),
		watched("executables, an inspector of the source", fromGenerator("standalone", fast), inspect),
	},
}

func watched(name string, pipelines []string, by observer) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		f, err := b.pass(ctx, pipelines, by)
		return f.values(), err
	}}
}

// scrape reads the metrics at once and then every second.
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
	resp, err := http.Get(url)
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

// inspect has the command show the records of the source.
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

// counter counts the bytes that are written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
