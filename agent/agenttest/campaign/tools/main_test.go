package tools_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if tool := os.Getenv(savingTool); tool != "" {
		os.Exit(saveAs(tool, os.Args[1:]))
	}
	if os.Getenv(asCurl) != "" {
		os.Exit(curl(os.Args[1:]))
	}
	os.Exit(m.Run())
}
