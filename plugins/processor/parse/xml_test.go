package parse_test

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/record"
)

func TestDocuments(t *testing.T) {
	object := func(pairs ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	}
	for _, c := range []struct {
		name     string
		settings []string
		text     string
		want     any
	}{
		{"text", nil, "<a> x &amp; <![CDATA[<y>]]>\n</a>", object("a", "x & <y>")},
		{"nothing", nil, "<?xml version='1.0'?>\n<!-- c --><a/>", object("a", nil)},
		{"elements", nil, "<a><b>1</b><c/><b>2</b></a>", object("a", object("b", []any{"1", "2"}, "c", nil))},
		{"attributes", nil, `<a id="7">x</a>`, object("a", object("@id", "7", "#text", "x"))},
		{"text between elements", nil, "<a>x<b>1</b>y</a>", object("a", object("b", "1", "#text", "xy"))},
		{"namespaces", nil, `<n:a xmlns:n="urn:n" xmlns="urn:d" n:id="1"><b/></n:a>`,
			object("a", object("@id", "1", "b", nil))},
		{"types", []string{"types", "@id:int,price:float,*:auto"}, `<a id="7"><price>2</price><n>3</n></a>`,
			object("a", object("@id", int64(7), "price", 2.0, "n", record.Number("3")))},
		{"names", []string{"attribute-prefix", "none", "text-name", "value", "lists", "b"}, `<a id="7">x<b>1</b></a>`,
			object("a", object("id", "7", "value", "x", "b", []any{"1"}))},
		{"a list of the document", []string{"lists", "a"}, "<a>1</a>", object("a", []any{"1"})},
		{"another encoding", nil, "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>", object("a", "é")},
	} {
		settings := map[string]string{}
		for i := 0; i < len(c.settings); i += 2 {
			settings[c.settings[i]] = c.settings[i+1]
		}
		got, err := parseValue(t, "parse.xml", settings, c.text)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
}

func TestWrongDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"":             "it has no element",
		"x":            "text outside",
		"<a/>x":        "text outside",
		"<a/><b/>":     `the document ended before the element "b"`,
		"<a>\n<b></a>": "line 2, column 8: element <b> closed by </a>",
		"<a>":          "unexpected EOF",
		"<a>&x;</a>":   "invalid character entity &x;",
		`<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>`: "invalid character entity &x;",
		"<a>\xff</a>":      "invalid UTF-8",
		`<a b="1" b="2"/>`: `"@b" comes twice`,
		"<?xml version='1.0' encoding='klingon'?><a/>":           "klingon",
		strings.Repeat("<a>", 401) + strings.Repeat("</a>", 401): "more than 400 elements are in each other",
	} {
		got, err := parseValue(t, "parse.xml", nil, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, the error is %v, want %s", text, got, err, want)
		}
	}
	wantRefused(t, "parse.xml", map[string]map[string]string{"types": {"types": "a:x"}})
}

// FuzzXML checks that what is accepted is a document to the standard library, too, and that none is lost or doubled.
func FuzzXML(f *testing.F) {
	for _, text := range []string{"<a/>", "<a><b c='d'>e</b></a>", "<a>x<b/>y<b/></a>", "<a>\xff</a>",
		"<a><a><a/></a></a>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseValue(t, "parse.xml", map[string]string{"attribute-prefix": "@"}, text)
		if err != nil {
			return
		}
		var whole struct {
			XMLName xml.Name
			Inner   string `xml:",innerxml"`
		}
		if err := xml.Unmarshal([]byte(text), &whole); err != nil && !strings.Contains(err.Error(), "encoding") {
			t.Fatalf("%q becomes %v; the library says %v", text, got, err)
		}
		elements := 0
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			token, err := d.Token()
			if err != nil {
				break
			}
			if _, ok := token.(xml.StartElement); ok {
				elements++
			}
		}
		if n := count(got); !strings.Contains(text, "encoding") && n != elements {
			t.Errorf("%q becomes %v with %d elements, want %d", text, got, n, elements)
		}
	})
}

// count returns the number of elements in the result for a document.
func count(v any) (n int) {
	m, _ := v.(map[string]any)
	for name, v := range m {
		if strings.HasPrefix(name, "@") || name == "#text" {
			continue
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, v := range list {
			n += 1 + count(v)
		}
	}
	return n
}

func BenchmarkXML(b *testing.B) {
	const text = `<order id="17"><customer>Ada</customer><line sku="a"><n>2</n></line>` +
		`<line sku="b"><n>1</n></line></order>`
	benchmark(b, "parse.xml", nil, text, func() {
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); err != nil {
				return
			}
		}
	})
}
