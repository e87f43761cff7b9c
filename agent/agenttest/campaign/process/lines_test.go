package process_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

// TestInspectReadsLongLines checks that Inspect reads the records after a torn line that exceeds the limit of a
// bufio.Scanner.
func TestInspectReadsLongLines(t *testing.T) {
	record := func(n int) string {
		position := base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(n)))
		return fmt.Sprintf("{\"position\":%q,\"metadata\":{\"opencdc.readAt\":\"1\"},\"payload\":{}}\n", position)
	}
	path := filepath.Join(t.TempDir(), "out")
	text := record(1) + strings.Repeat("x", 2*bufio.MaxScanTokenSize) + "\n" + record(2) + record(3)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := process.Inspect(t, path, nil); o.Last != 3 || o.Torn != 1 {
		t.Errorf("%+v, want the records up to 3 and one torn line", o)
	}
}
