package spec

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// Every value that the slow expression matches passes the fast check before it. The values are random sequences of what
// the expression names.
func TestMayHaveSecretWithin(t *testing.T) {
	pieces := []string{"http://", "https://", "://", "user", "k3y", ":", "@", "/", "=", " ", "\t", "\n", "\f", "'", `"`,
		"password", "pass", "pwd", "api", "key", "Bearer", "Basic", "bearer", "basic", "?", "&", "sig", "code", "tcp(",
		"-----BEGIN ", "PRIVATE KEY", "gho", "_", "github_pat", "glpat", "-", "xoxb", "sk", "live", "AIza", "eyJ", ".",
		"abcdefgh", "ABCDEFGH0123456789abcdefghijkl", "${", "}", "a", "1"}
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 50_000 {
		var b strings.Builder
		for range 1 + random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		if value := b.String(); secretWithin().MatchString(value) {
			found++
			if !mayHaveSecretWithin(value) {
				t.Fatalf("%q has a secret that the fast check misses", value)
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d of the values have a secret", found)
	}
}
