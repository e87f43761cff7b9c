package csv_test

import (
	stdcsv "encoding/csv"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func reader(t testing.TB, s csv.Settings) *csv.Reader {
	t.Helper()
	if s.Delimiter == "" {
		s.Delimiter, s.Quote = ",", `"`
	}
	r, err := csv.NewReader(&s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// objects returns the objects of a text, or the first error.
func objects(r *csv.Reader, text string) (all []map[string]any, err error) {
	table, rest := r.Columns(), []byte(text)
	var line []byte
	for len(rest) > 0 {
		line, rest = r.Line(rest)
		if table == nil {
			if table, err = r.Header(line); err != nil {
				return nil, err
			}
			continue
		}
		if table.Skips(line) {
			continue
		}
		object, err := table.Object(line)
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
	return all, nil
}

func TestTables(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings csv.Settings
		text     string
		want     []map[string]any
	}{
		{"a header", csv.Settings{}, "a,b\n1,2\r\n\n3,\"x\ny\"\"z\"\n", []map[string]any{{"a": "1", "b": "2"},
			{"a": "3", "b": "x\ny\"z"}}},
		{"columns", csv.Settings{Columns: []string{"a", "", "b"}}, "1,2,3", []map[string]any{{"a": "1", "b": "3"}}},
		{"types", csv.Settings{Types: []string{"a:int", "*:auto"}}, "a,b,c\n1,true,x\n,1.5,",
			[]map[string]any{{"a": int64(1), "b": true, "c": "x"}, {"a": nil, "b": 1.5, "c": ""}}},
		{"another dialect", csv.Settings{Delimiter: "tab", Quote: "none"}, "a\tb\n\"\t2",
			[]map[string]any{{"a": `"`, "b": "2"}}},
		{"one column", csv.Settings{}, "a\n\n1\n", []map[string]any{{"a": ""}, {"a": "1"}}},
		{"a header alone", csv.Settings{}, "a,b\r\n", nil},
		{"nothing", csv.Settings{}, "", nil},
	} {
		got, err := objects(reader(t, c.settings), c.text)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
}

func TestWrongTables(t *testing.T) {
	for text, want := range map[string]string{
		"a,a\n":                            `the header is not usable: "a" is the name of two columns`,
		"\n":                               "the header has no names",
		"a,\"b\n":                          "column 2 of the header: the closing quote is missing",
		strings.Repeat("a,", 10_000) + "b": "", // names come twice, or too many
		"a,b\n1\n":                         "it has 1 of 2 columns",
		"a,b\n1,2,3\n":                     "it has more than 2 columns",
		"a,b\n1,\"2\"3\n":                  "column 2: the closing quote is followed by a text",
	} {
		got, err := objects(reader(t, csv.Settings{}), text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, the error is %v, want %s", text, got, err, want)
		}
	}
	for setting, s := range map[string]csv.Settings{
		"csv.delimiter": {Delimiter: "none"}, "csv.quote": {Delimiter: ",", Quote: ","},
		"csv.columns": {Delimiter: ",", Columns: []string{"a", "a"}},
		"csv.types":   {Delimiter: ",", Columns: []string{"a"}, Types: []string{"b:int"}},
	} {
		var wrong sdk.SettingError
		if _, err := csv.NewReader(&s); !errors.As(err, &wrong) || wrong.Setting != setting {
			t.Errorf("%v: the error is %v, want one of %s", s, err, setting)
		}
	}
}

// FuzzTable compares tables with those of the library.
func FuzzTable(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "a\n\"x\ny\"\n", "a,b\n\"\"\"\",\n", "a\n\"\n", "a,\n1,2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// The library changes line breaks in quotes, and skips empty lines.
		if strings.Contains(text, "\r") || strings.Contains(text, "\n\n") || strings.HasPrefix(text, "\n") {
			return
		}
		got, err := objects(reader(t, csv.Settings{}), text)
		all, libraryErr := stdcsv.NewReader(strings.NewReader(text)).ReadAll()
		if libraryErr != nil {
			if err == nil {
				t.Fatalf("%q becomes %v; the library says %v", text, got, libraryErr)
			}
			return
		}
		if err != nil {
			return // a header that the library does not check
		}
		if len(all) > 0 && len(got) != len(all)-1 {
			t.Fatalf("%q becomes %v; the library makes %q", text, got, all)
		}
		for i, object := range got {
			for j, name := range all[0] {
				if name != "" && object[name] != all[i+1][j] {
					t.Fatalf("%q becomes %v; the library makes %q", text, got, all)
				}
			}
		}
	})
}
