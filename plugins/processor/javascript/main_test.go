package javascript_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(hostileVariable); name != "" {
		if !runHostile(name) {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
