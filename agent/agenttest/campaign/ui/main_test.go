package ui_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/browser"
)

var (
	screenshots = flag.String("screenshots", "", "directory that pictures of the pages are left in")
	watch       = flag.Duration("watch", 3*time.Second, "how long a page with a thousand pipelines is watched")
	everyScheme = flag.Bool("every-scheme", false, "try the views in each size with each colour scheme, not with one")
)

func TestMain(m *testing.M) { os.Exit(browser.Run(m)) }
