package sdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/google/go-cmp/cmp"
)

type common struct {
	Topic string `json:"topic" validate:"required" desc:"Where to read."`
}

type tls struct {
	CA string `json:"ca"`
}

type shape struct {
	Type    string            `json:"type" validate:"required,inclusion=raw|structured"`
	Options map[string]string `json:"options.*"`
}

type collection struct {
	Format shape `json:"format"`
	Weight int   `json:"weight" default:"1"`
}

type settings struct {
	common
	Rate    float64               `json:"rate" default:"2.5" validate:"gt=0,lt=100"`
	Small   int8                  `json:"small"`
	Port    uint16                `json:"net.port"`
	On      bool                  `json:"on" default:"true"`
	Wait    time.Duration         `json:"wait" default:"1s" validate:"gt=10ms"`
	Hosts   []string              `json:"hosts"`
	Numbers []int                 `json:"numbers"`
	Limit   *int                  `json:"limit"`
	TLS     tls                   `json:"tls"`
	Proxy   *tls                  `json:"proxy"`
	Name    string                `json:"name" validate:"exclusion=root|admin,regex=^[a-z,]{1,9}$"`
	Labels  map[string]string     `json:"labels"`
	All     map[string]collection `json:"collections.*"`
	Other   string
}

func TestParametersOf(t *testing.T) {
	got := sdk.ParametersOf(&settings{})
	want := sdk.Parameters{
		"topic": {Type: sdk.TypeString, Description: "Where to read.",
			Validations: []sdk.Validation{{Type: sdk.ValidationRequired}}},
		"rate": {Type: sdk.TypeFloat, Default: "2.5", Validations: []sdk.Validation{
			{Type: sdk.ValidationGreaterThan, Value: "0"}, {Type: sdk.ValidationLessThan, Value: "100"}}},
		"small":    {Type: sdk.TypeInt},
		"net.port": {Type: sdk.TypeInt},
		"on":       {Type: sdk.TypeBool, Default: "true"},
		"wait": {Type: sdk.TypeDuration, Default: "1s",
			Validations: []sdk.Validation{{Type: sdk.ValidationGreaterThan, Value: "10ms"}}},
		"hosts":    {Type: sdk.TypeString},
		"numbers":  {Type: sdk.TypeString},
		"limit":    {Type: sdk.TypeInt},
		"tls.ca":   {Type: sdk.TypeString},
		"proxy.ca": {Type: sdk.TypeString},
		"name": {Type: sdk.TypeString, Validations: []sdk.Validation{
			{Type: sdk.ValidationExclusion, Value: "root,admin"}, {Type: sdk.ValidationRegex, Value: "^[a-z,]{1,9}$"}}},
		"labels.*": {Type: sdk.TypeString},
		"collections.*.format.type": {Type: sdk.TypeString, Validations: []sdk.Validation{
			{Type: sdk.ValidationRequired}, {Type: sdk.ValidationInclusion, Value: "raw,structured"}}},
		"collections.*.format.options.*": {Type: sdk.TypeString},
		"collections.*.weight":           {Type: sdk.TypeInt, Default: "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

type (
	base struct {
		Server string `json:"server"`
		Pause  struct {
			Min time.Duration `json:"min"`
		} `json:"pause"`
	}
	described struct {
		base
		common
		Proxy  *base           `json:"proxy"`
		Groups map[string]base `json:"groups"`
		Labels map[string]int  `json:"labels"`
		List   map[string]struct {
			N int `json:"n"`
		} `json:"list.*"`
		None int `json:"none"`
	}
)

// A field without a tag has the description of its name in the struct that declares it.
func TestDescriptions(t *testing.T) {
	const own = "\nsdk_test.described\nlabels: Numbers: by name.\nlist.*.n: \"A\" number.\nserver: Of another struct.\n" +
		"pause.min: Of another struct.\n\nsdk_test.common\ntopic: Not the text of the tag.\n"
	const others = "\nsdk_test.base\nserver: Host.\npause.min: Shortest pause.\nnone: Of another struct.\n"
	got := map[string]string{}
	for name, p := range sdk.Described(&described{}, own+others) {
		got[name] = p.Description
	}
	want := map[string]string{"server": "Host.", "pause.min": "Shortest pause.", "proxy.server": "Host.",
		"proxy.pause.min": "Shortest pause.", "groups.*.server": "Host.", "groups.*.pause.min": "Shortest pause.",
		"labels.*": "Numbers: by name.", "list.*.n": `"A" number.`, "none": "", "topic": "Where to read."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for name, p := range sdk.ParametersOf(described{}) {
		if p.Description != "" && name != "topic" {
			t.Errorf("%s has the description %q without any", name, p.Description)
		}
	}
}

func TestParametersOfPanics(t *testing.T) {
	for name, v := range map[string]any{
		"no struct": 7,
		"nothing":   nil,
		"channel": struct {
			C chan int `json:"c"`
		}{},
		"unknown rule": struct {
			S string `json:"s" validate:"reqired"`
		}{},
		"bad number": struct {
			N int `json:"n" validate:"gt=x"`
		}{},
		"bad regex": struct {
			S string `json:"s" validate:"regex=("`
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			sdk.ParametersOf(v)
		})
	}
}

func TestDecode(t *testing.T) {
	var got settings
	err := sdk.Decode(map[string]string{
		" topic ": " orders ", "small": "-128", "net.port": "65535", "on": "F", "rate": "",
		"hosts": "a, b,c", "numbers": "1,2", "limit": "0", "tls.ca": "x", "name": "a,b",
		"labels.k": "v", "collections.users.format.type": "raw", "collections.users.format.options.id": "int",
		"collections.jobs.format.type": "structured", "collections.jobs.weight": "3",
	}, &got)
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	want := settings{
		common: common{Topic: "orders"}, Rate: 2.5, Small: -128, Port: 65535, Wait: time.Second,
		Hosts: []string{"a", "b", "c"}, Numbers: []int{1, 2}, Limit: &zero, TLS: tls{CA: "x"}, Name: "a,b",
		Labels: map[string]string{"k": "v"},
		All: map[string]collection{
			"users": {Format: shape{Type: "raw", Options: map[string]string{"id": "int"}}, Weight: 1},
			"jobs":  {Format: shape{Type: "structured"}, Weight: 3},
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Fatal(diff)
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := map[string]struct {
		settings map[string]string
		want     []string
	}{
		"required": {map[string]string{"topic": " "}, []string{`"topic": is required`}},
		"required in a group": {map[string]string{"topic": "t", "collections.a.weight": "2"},
			[]string{`"collections.a.format.type": is required`}},
		"greater than": {map[string]string{"topic": "t", "rate": "0"},
			[]string{`"rate": must be greater than 0, not 0`}},
		"less than": {map[string]string{"topic": "t", "rate": "100"},
			[]string{`"rate": must be less than 100, not 100`}},
		"duration too short": {map[string]string{"topic": "t", "wait": "10ms"},
			[]string{`"wait": must be greater than 10ms, not 10ms`}},
		"inclusion": {map[string]string{"topic": "t", "collections.a.format.type": "x"},
			[]string{`"collections.a.format.type": must be one of raw, structured, not "x"`}},
		"exclusion": {map[string]string{"topic": "t", "name": "admin"},
			[]string{`"name": must not be one of root, admin`}},
		"regex": {map[string]string{"topic": "t", "name": "A"},
			[]string{`"name": must match the expression ^[a-z,]{1,9}$`}},
		"int": {map[string]string{"topic": "t", "small": "1.5"},
			[]string{`"small": must be an integer, not "1.5"`}},
		"int range": {map[string]string{"topic": "t", "small": "128"},
			[]string{`"small": must fit int8, not "128"`}},
		"unsigned": {map[string]string{"topic": "t", "net.port": "-1"},
			[]string{`"net.port": must fit uint16, not "-1"`}},
		"float": {map[string]string{"topic": "t", "rate": "NaN"},
			[]string{`"rate": must be a number, not "NaN"`}},
		"bool": {map[string]string{"topic": "t", "on": "yes"},
			[]string{`"on": must be true or false, not "yes"`}},
		"duration": {map[string]string{"topic": "t", "wait": "10"},
			[]string{`"wait": must be a duration such as 500ms, 10s or 1h30m, not "10"`}},
		"list item": {map[string]string{"topic": "t", "numbers": "1,b"},
			[]string{`"numbers": item 2 must fit int, not "b"`}},
		"unknown, close": {map[string]string{"topic": "t", "Rates": "1"},
			[]string{`"Rates": is not a setting of this plugin; did you mean "rate"?`}},
		"unknown, far": {map[string]string{"topic": "t", "zzzz": "1"},
			[]string{`"zzzz": is not a setting of this plugin`}},
		"star is one segment": {map[string]string{"topic": "t", "labels.a.b": "1"},
			[]string{`"labels.a.b": is not a setting of this plugin`}},
		"all of them": {map[string]string{"rate": "x", "small": "300", "zzzz": ""}, []string{
			`"rate": must be a number, not "x"`, `"topic": is required`, `"zzzz": is not a setting of this plugin`,
			`"small": must fit int8, not "300"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := settings{Small: 42}
			err := sdk.Decode(test.settings, &got)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(settings{Small: 42}, got, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("the struct changed: %s", diff)
			}
		})
	}
}

func TestCheckNamesTheSetting(t *testing.T) {
	p := sdk.Parameters{"a": {Type: sdk.TypeInt}, "any": {},
		"b": {Validations: []sdk.Validation{{Type: sdk.ValidationRequired}}}}
	got := p.Check(map[string]string{"a": "x", "any": "x"})
	want := []sdk.SettingError{{Setting: "a", Message: `must be an integer, not "x"`},
		{Setting: "b", Message: "is required"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if got := p.Check(map[string]string{"b": "1"}); got != nil {
		t.Fatalf("got %v for good settings", got)
	}
}
