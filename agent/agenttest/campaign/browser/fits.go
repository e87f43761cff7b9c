package browser

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/npm"
)

// Fits checks that the page in a tab is no wider than the window, and accessible.
func Fits(ctx context.Context, t testing.TB, view string) {
	t.Helper()
	wide, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("document.documentElement.scrollWidth > innerWidth"))
	if err != nil || wide {
		t.Errorf("%s: the page is wider than the window: %v, error %v", view, wide, err)
	}
	// axe-core finds problems for people with disabilities.
	found, err := violations(ctx, filepath.Join(npm.Dir(t, "axe-core"), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("%s: %s", view, f)
	}
}

// violations returns the findings of axe-core. It is loaded by the debugger, to which the policy of the page does not
// apply.
func violations(ctx context.Context, path string) ([]string, error) {
	if loaded, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!window.axe")); err != nil {
		return nil, err
	} else if !loaded {
		script, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[any](string(script)+"; null")); err != nil {
			return nil, err
		}
	}
	return chromedp.Run(ctx, chromedp.Evaluate[[]string](
		`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + ": " + v.help + `+
			`": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + (n.any[0]?.message || `+
			`"")).join(" | ")))`,
		func(e *runtime.EvaluateParams) { wait := true; e.AwaitPromise = &wait }))
}

// Colours emulates a preference for light or dark in pages.
func Colours(scheme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
				Value: scheme}}})
		return chromedp.Void{}, err
	}
}
