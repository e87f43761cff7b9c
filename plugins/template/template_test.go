package template_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/template"
)

func sample() *record.Record {
	return &record.Record{
		Position:  record.Position("p1"),
		Operation: record.OperationCreate,
		Metadata:  record.NewMetadata(map[string]string{"m": "v", "a.b": "dotted"}),
		Key:       record.Raw([]byte("k")),
		After: record.Structured(map[string]any{"a": int64(1), "f": 1.0, "s": "text", "t": true,
			"n": map[string]any{"x": "deep"}}),
	}
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]string{
		`{{ eq .Metadata.m "v" }}`:                  "true",
		`{{ eq .Metadata.none "v" }}`:               "false",
		`{{ ne .Metadata.none "v" }}`:               "true",
		`{{ index .Metadata "a.b" | eq "dotted" }}`: "true",
		`{{ eq .Operation "create" }}`:              "incompatible types for comparison",
		`{{ eq .Operation.String "create" }}`:       "true",
		`{{ .Operation | toString | eq "create" }}`: "true",
		`{{ eq .Payload.After.f 1 }}`:               "true",
		`{{ eq .Payload.After.s 1 }}`:               "incompatible types for comparison",
		`{{ eq .Payload.After.f 1.0 }}`:             "true",
		`{{ eq .Payload.After.a 1 }}`:               "true",
		`{{ eq .Key "k" }}`:                         "true",
		`{{ eq (printf "%s" .Key) "k" }}`:           "true",
		`{{ .Payload.Before.x }}`:                   "the record has no .Payload.Before",
		`{{ hasKey .Payload.After "a" }}`:           "true",
		`{{ and .Payload.After.t (gt .Payload.After.a 0) (eq .Payload.After.n.x "deep") }}`: "true",
		`{{ or (eq .Metadata.m "x") (lt .Payload.After.f 0.5) }}`:                           "false",
		`{{ not .Payload.After.t }}`:                                                        "false",
		` {{ true }}`:                                                                       "it must be true or false",
		`{{ .Operation }}`: `the output of the ` +
			`condition, "create"`,
		`{{ (.Map).operation | eq "create" }}`: "true",
		`{{ .Payload.After.nosuch }}`: `: .Payload.After.nosuch is empty, null or missing; where it may be, write ` +
			`{{ .Payload.After.nosuch | default false }}`,
		`{{ .Payload.After.nosuch | default false }}`:    "false",
		`{{ if eq .Payload.After.a 7777 }}true{{ end }}`: "it prints nothing, because a value in it is empty, null or",
	} {
		c, err := template.ParseCondition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := c.Match(new(template.TimeLimit), sample())
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		} else if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

func TestConditionsThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		`{{ .Metadata["a.b"] }}`:  "bad character",
		`{{ bad .Key }}`:          `there is no function "bad"`,
		`{{ env "HOME" }}`:        `there is no function "env"`,
		`{{ getHostByName "x" }}`: `there is no function "getHostByName"`,
		`yes`:                     "must be true or false",
		`{{ if }}`:                "missing value for if: write an expression after it",
		`{{ $$x }}`:               "write one $ before the name of a variable",
	} {
		if _, err := template.ParseCondition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if c, err := template.ParseCondition(" \n"); c != nil || err != nil {
		t.Errorf("a blank condition is %v, %v", c, err)
	}
}

func TestPartsOfTemplates(t *testing.T) {
	for text, want := range map[string]schema.Parts{
		`{{ .Metadata.m }}`:                        {},
		`{{ .Operation }}{{ .Position }}`:          {},
		`{{ .Key.id }}`:                            {Key: true},
		`{{ with .Payload }}{{ .After }}{{ end }}`: {Payload: true},
		`{{ toJson . }}`:                           {Key: true, Payload: true},
		`{{ $r := . }}{{ $r.Key }}`:                {Key: true, Payload: true},
		`{{ $.Key }}`:                              {Key: true},
		`{{ template "x" . }}{{ define "x" }}{{ .Key }}{{ end }}`: {Key: true, Payload: true},
	} {
		tpl, err := template.Parse(text, template.Lenient)
		if err != nil {
			t.Fatal(err)
		}
		if got := tpl.Parts(); got != want {
			t.Errorf("%s: reads %+v, want %+v", text, got, want)
		}
	}
}

func TestTemplatesAreBounded(t *testing.T) {
	const exceeds = "output exceeds or took longer than"
	for text, want := range map[string]string{
		`{{ repeat 1000000000 "x" }}`:                                                         exceeds,
		`{{ until 1000000000 | len }}`:                                                        exceeds,
		`{{ untilStep 0 1000000000 1 | len }}`:                                                exceeds,
		`{{ seq 1 1 1000000000 }}`:                                                            exceeds,
		`{{ nindent 1000000000 "x" }}`:                                                        exceeds,
		`{{ split "" (repeat 1000000 "x") | len }}`:                                           exceeds,
		`{{ splitn "," 1000000 (repeat 1000000 ",") | len }}`:                                 exceeds,
		`{{ splitList "" (repeat 4000000 "x") | len }}`:                                       exceeds,
		`{{ regexFindAll "" (repeat 4000000 "x") -1 | len }}`:                                 exceeds,
		`{{ regexSplit "x" (repeat 4000000 "x") -1 | len }}`:                                  exceeds,
		`{{ fromJson (printf "[%s1]" (repeat 1000000 "{},")) | len }}`:                        exceeds,
		`{{ fromJson (printf "[%s1]" (repeat 4000000 "1,")) | len }}`:                         exceeds,
		`{{ printf (repeat 1000000 "%1000000d") 1 }}`:                                         exceeds,
		`{{ printf (repeat 1000 "%[1]s") (repeat 1000000 "x") }}`:                             exceeds,
		`{{ printf (repeat 1000 "%*d") 1000000 1 }}`:                                          exceeds,
		`{{ genPrivateKey "rsa" }}`:                                                           "takes too long: use ecdsa",
		`{{ genPrivateKey "dsa" }}`:                                                           "takes too long: use ecdsa",
		`{{ genCA "x" 1 }}`:                                                                   "use genCAWithKey",
		`{{ genSelfSignedCert "x" nil nil 1 }}`:                                               "use genSelfSignedCertWithKey",
		`{{ randAlpha 1000000000 }}`:                                                          exceeds,
		`{{ $s := "0123456789" }}{{ range until 60 }}{{ $s = printf "%s%s" $s $s }}{{ end }}`: exceeds,
		`{{ $s := "0123456789" }}{{ range until 60 }}{{ $s = cat $s $s }}{{ end }}`:           exceeds,
		`{{ $s := repeat 100000 "a" }}{{ replace "a" $s $s }}`:                                exceeds,
		`{{ $s := repeat 100000 "a" }}{{ regexReplaceAll "a" $s $s }}`:                        exceeds,
		`{{ $l := list 1 }}{{ range until 60 }}{{ $l = list $l $l }}{{ end }}`:                "makes a value of more",
		`{{ $d := dict }}{{ $_ := set $d "x" $d }}{{ $d }}`:                                   "cannot contain itself",
		`{{ $d := dict }}{{ $_ := merge $d (dict "x" (list $d)) }}{{ $d }}`:                   "cannot contain itself",
		`{{ range 10000000000 }}` + strings.Repeat("0123456789", 1000) +
			`{{ end }}`: exceeds,
	} {
		wantBounded(t, text, want, new(template.TimeLimit))
	}
	// These take all the time there is.
	for text, want := range map[string]string{
		`{{ range 1000000000000 }}{{ end }}`: "took longer than",
		`{{ $l := list 1 }}{{ range until 15 }}{{ $l = list $l $l }}{{ end }}{{ $l = list $l }}{{ range until 80 }}` +
			`{{ $l = list $l }}{{ end }}{{ toPrettyJson $l | len }}`: exceeds,
		`{{ define "x" }}{{ template "x" . }}{{ template "x" . }}{{ end }}` +
			`{{ template "x" . }}`: "exceeded maximum template depth or took longer than",
	} {
		limit := new(template.TimeLimit)
		limit.BeginWithin(t.Context(), 20*time.Millisecond)
		wantBounded(t, text, want, limit)
	}
}

// wantBounded runs a subtest that executes a template until it reaches a limit.
func wantBounded(t *testing.T, text, want string, limit *template.TimeLimit) {
	t.Run(text[:min(len(text), 60)], func(t *testing.T) {
		t.Parallel()
		tpl, err := template.Parse(text, template.Lenient)
		if err != nil {
			t.Fatal(err)
		}
		var out []byte
		took := wait.CPUTime(func() { out, err = tpl.Append(limit, []byte("kept"), sample()) })
		// It depends on the machine which of two bounds is reached first.
		met := func(want string) bool { return err != nil && strings.Contains(err.Error(), want) }
		if !slices.ContainsFunc(strings.Split(want, " or "), met) || string(out) != "kept" {
			t.Errorf("%d bytes, %v; want %s", len(out), err, want)
		}
		if took > time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

var everyCall = flag.Bool("every-call", false, "compile each call with each pair of operands, not only some")

// TestDirectAccessIsTheTemplate compares expressions compiled to direct access with text/template. The same text inside
// "with" is always executed by text/template.
func TestDirectAccessIsTheTemplate(t *testing.T) {
	operands := []string{`.Metadata.m`, `.Metadata.none`, `.Operation`, `.Operation.String`, `.Key`, `.Key.id`,
		`.Payload.Before`,
		`.Payload.After.a`, `.Payload.After.f`, `.Payload.After.s`, `.Payload.After.t`, `.Payload.After.n.x`,
		`.Payload.After.n`, `.Payload.After.none`,
		`"v"`, `"text"`, `""`, `1`, `1.0`, `0`, `-2.5`, `true`, `(index .Metadata "m")`, `(index .Metadata "none")`,
		`(index .Payload.After "a")`, `(index .Payload.After "none")`,
		`(printf "%s" .Key)`, `(printf "%s" .Operation)`, `(toString .Payload.After.s)`, `(not .Payload.After.t)`}
	calls := []string{"eq %s %s", "ne %s %s", "lt %s %s", "le %s %s", "gt %s %s", "ge %s %s", "and %s %s", "or %s %s",
		"contains %s %s", "hasPrefix %s %s", "hasSuffix %s %s"}
	texts := slices.Clone(operands)
	for _, a := range append(operands, `.Payload.After`, `.Position`, `.Metadata`, `.Payload`, `.`) {
		texts = append(texts, "toJson "+a, "mustToJson "+a, a+" | toJson", a+" | toString | toJson", "toJson "+a+" | len",
			`eq (toJson `+a+`) "x"`, "and (toJson "+a+") 1", "toJson ("+a+")", "$x := toJson "+a, a+` | toJson "x"`)
	}
	for i, call := range calls {
		for j, a := range operands {
			for k, b := range operands {
				if *everyCall || (j+k+i)%len(calls) == 0 { // each pair with one of the calls
					texts = append(texts, fmt.Sprintf(call, a, b))
				}
			}
		}
	}
	other := func(v any) *record.Record {
		r := sample()
		r.Key = record.Structured(map[string]any{"id": v})
		r.After = record.Structured(map[string]any{"a": v, "f": v, "s": v, "t": v, "n": v})
		return r
	}
	records := []*record.Record{sample(), {}, other(nil), other("text"), other(""), other(2.5), other(int64(0)),
		other(1), other(true), other([]any{}), other(map[string]any{"x": ""}), other("caf\xe9 <&>\u2028\""),
		other(json.Number("1e3")), other(math.NaN()), other([]byte{0xff}), other(time.Unix(1, 0).UTC()),
		other(uint8(1)), other(errors.New("x"))}
	for i, text := range texts {
		with := records[i%len(records):][:1]
		if strings.Contains(text, "oJson") {
			with = records
		}
		for _, r := range with {
			strict := i%2 == 0
			got, gotErr := run("<{{ "+text+" }}>", strict, r)
			want, wantErr := run("<{{ with $ }}{{ "+text+" }}{{ end }}>", strict, r)
			if got != want || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("%s of %v: %q, %v; text/template makes %q, %v", text, r, got, gotErr, want, wantErr)
			}
		}
	}
}

// Objects that are too large or nested too deep for a function are refused by a template of one action, too.
func TestJSONOfLargeObjects(t *testing.T) {
	deep := map[string]any{}
	for range 150 {
		deep = map[string]any{"x": deep}
	}
	many, names := make([]any, 100_001), make([]string, 100_001)
	for name, v := range map[string]any{"deep": deep, "many values": many, "many texts": names,
		"long text": strings.Repeat("x", 17<<20)} {
		r := &record.Record{After: record.Structured(map[string]any{"v": v})}
		for _, text := range []string{"toJson .Payload.After", "toJson .Payload.After.v"} {
			if out, err := run("{{ "+text+" }}", false, r); err == nil {
				t.Errorf("%s of %s: %d bytes", text, name, len(out))
			}
		}
	}
}

func run(text string, strict bool, r *record.Record) (string, error) {
	mode := template.Lenient
	if strict {
		mode = template.Exact
	}
	tpl, err := template.Parse(text, mode)
	if err != nil {
		return "", nil // neither text can be parsed
	}
	out, err := tpl.Append(new(template.TimeLimit), nil, r)
	return string(out), err
}

func TestDirectAccessTakesNoMemory(t *testing.T) {
	r := sample()
	r.After = record.Raw([]byte("a line"))
	r.Key = record.Structured(map[string]any{"id": 7, "x": "<"})
	tpl, err := template.Parse(`{{ printf "%s" .Payload.After }} of {{ index .Metadata "m" | toJson }} `+
		`{{ toJson .Key }}`, template.Strict)
	if err != nil {
		t.Fatal(err)
	}
	c, err := template.ParseCondition(`{{ and (eq .Metadata.m "v") (eq .Operation.String "create") }}`)
	if err != nil {
		t.Fatal(err)
	}
	var timeLimit template.TimeLimit
	buf := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() {
		if out, err := tpl.Append(&timeLimit, buf, r); err != nil || string(out) != `a line of "v" {"id":7,"x":"\u003c"}` {
			t.Errorf("%q, %v", out, err)
		}
		if ok, err := c.Match(&timeLimit, r); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Bounded functions work with usual arguments. Time stands still, so that a busy machine is not too slow for them.
func TestBoundedFunctions(t *testing.T) { synctest.Test(t, testBoundedFunctions) }

func testBoundedFunctions(t *testing.T) {
	for text, want := range map[string]string{
		`{{ (split "," "a,b")._1 }}`: "b", `{{ splitList "," "a,b" | len }}`: "2",
		`{{ (splitn "," 2 "a,b,c")._1 }}`:     "b,c",
		`{{ regexFindAll "[a-c]" "abcd" 2 }}`: `["a","b"]`,
		`{{ regexSplit "," "a,b" -1 | len }}`: "2", `{{ (fromJson "{\"a\":[1,2]}").a }}`: "[1,2]",
		`{{ toPrettyJson (list 1) }}`:                                                      "[\n  1\n]",
		`{{ printf "%05d|%-3s|%[2]s|%.2f|100%%" 7 "x" 1.5 }}`:                              "00007|x  |x|1.50|100%",
		`{{ genPrivateKey "ed25519" | contains "PRIVATE KEY" }}`:                           "true",
		`{{ genPrivateKey "ecdsa" | contains "PRIVATE KEY" }}`:                             "true",
		`{{ (genCAWithKey "x" 1 (genPrivateKey "ecdsa")).Cert | contains "CERTIFICATE" }}`: "true",
	} {
		tpl, err := template.Parse(text, template.Lenient)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tpl.Append(new(template.TimeLimit), nil, sample())
		if string(out) != want {
			t.Errorf("%s = %q (%v), want %q", text, out, err, want)
		}
	}
}
