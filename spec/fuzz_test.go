package spec_test

import (
	"testing"

	"github.com/conduit-agent/conduit/spec"
	"github.com/google/go-cmp/cmp"
)

// A file that is read without errors survives being written and read again.
func FuzzParseFile(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		for _, path := range glob(f, pattern) {
			f.Add(read(f, path))
		}
	}
	f.Add([]byte("pipelines:\n- id: p\n  status: stopped\n  description: \"\\0\\u2028 a\\n b \\t\"\n  name: \" x\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first := spec.ParseFile("f.yaml", data)
		all := pipelines(first)
		text := spec.Marshal(all...)
		again := spec.ParseFile("f.yaml", text)
		if diff := cmp.Diff(all, pipelines(again)); diff != "" {
			t.Fatalf("changed by writing and reading:\n%s\n%s\n%s", diff, text, report(again))
		}
		for i := range all {
			if spec.Digest(&all[i]) != spec.Digest(&again.Pipelines[i].Pipeline) {
				t.Fatalf("digest of %s changed", all[i].ID)
			}
			for _, p := range spec.Validate(&all[i]) {
				if p.Severity == spec.SeverityError {
					t.Fatalf("the file is valid, its pipeline is not: %+v", p)
				}
			}
		}
	})
}
