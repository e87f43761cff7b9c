// Package browser opens pages in a headless Chromium, which all tests of a process share.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// limit ends a test that waits for a page in vain. On a busy machine, or with the race detector, a test takes minutes.
const limit = 8 * time.Minute

// common is the shared browser of all tests.
var common struct {
	sync.Once
	ctx context.Context
	end func()
	err error
}

// Tab returns a context for actions in a tab with separate cookies and storage. The tab is closed when the test ends.
// The limit of the test is extended by watched, the time in which it only observes.
func Tab(t testing.TB, watched time.Duration) context.Context {
	t.Helper()
	common.Do(func() { common.ctx, common.end, common.err = start() })
	return tab(common.ctx, t, watched, common.err)
}

// Alone is Tab in a separate browser, for measurements.
func Alone(t testing.TB, watched time.Duration) context.Context {
	t.Helper()
	ctx, end, err := start()
	t.Cleanup(end)
	return tab(ctx, t, watched, err)
}

func tab(running context.Context, t testing.TB, watched time.Duration, err error) context.Context {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(running, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, limit+watched)
	t.Cleanup(cancel)
	return ctx
}

// start starts a browser. end ends it, whatever the error.
func start() (ctx context.Context, end func(), err error) {
	path, err := find("chromium", "chromium-browser", "google-chrome")
	if err != nil {
		return nil, func() {}, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WindowSize(1100, 900),
		chromedp.WSURLReadTimeout(limit))
	processes, endProcesses := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endContext := chromedp.NewContext(processes)
	end = func() { endContext(); endProcesses() }
	if err := chromedp.Do(ctx); err != nil {
		return nil, end, fmt.Errorf("cannot start %s: %w", path, err)
	}
	return ctx, end, nil
}

// Run runs the tests of a package, for TestMain, and ends the browser if there is one.
func Run(m *testing.M) (code int) {
	code = m.Run()
	if common.end != nil {
		common.end()
	}
	return code
}

func find(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no chromium in the PATH: the package chromium has it")
}
