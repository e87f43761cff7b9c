package agent_test

import (
	"testing"

	"github.com/conduit-agent/conduit/agent"
)

func TestSecretsAreCovered(t *testing.T) {
	for _, c := range []struct{ value, text, want string }{
		{"hunter2secret", `open /x/hunter2secret/y: no`, `open /x/${V}/y: no`},
		{"hunter2secret", `xhunter2secrety`, `x${V}y`},
		{"hunter2secret\n", `"hunter2secret"`, `"${V}"`},
		{"say \"when\"\tnow", `not "say \"when\"\tnow"`, `not "${V}"`},
		{"a b/c&d=ef", `host?q=a+b%2Fc%26d%3Def and a%20b%2Fc&d=ef`, `host?q=${V} and ${V}`},
		{"-----BEGIN-----\nMIIEvgIBADAN\n", `bad line MIIEvgIBADAN`, `bad line ${V}`},
		{"port", `export to port 1 in report`, `export to ${V} 1 in report`},
		{"/abc", `/x/abc/y /x/abcd`, `/x${V}/y /x/abcd`},
		{"1", `a.yaml:1:1: generation 1 must be more, not "1"`, `a.yaml:1:1: generation 1 must be more, not "${V}"`},
		{"1", `'1' 1 '1"`, `'${V}' 1 '1"`},
		{"größe", `größen größe`, `größen ${V}`},
		{"", `nothing ""`, `nothing ""`},
	} {
		if got := agent.Cover(c.text, "${V}", c.value); got != c.want {
			t.Errorf("%q without %q is %q, want %q", c.text, c.value, got, c.want)
		}
	}
	if got := agent.Cover("user:secret-word@host", "${A}", "secret-word", "$B", "word", "u:$A", "user:secret-word"); got != "u:$A@host" {
		t.Errorf("the longest does not win: %q", got)
	}
}
