package redact_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/redact"
)

func TestText(t *testing.T) {
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
		if got := redactor("${V}", c.value).Text(c.text); got != c.want {
			t.Errorf("%q without %q is %q, want %q", c.text, c.value, got, c.want)
		}
	}
	if got := redactor("${A}", "secret-word", "$B", "word", "u:$A",
		"user:secret-word").Text("user:secret-word@host"); got != "u:$A@host" {
		t.Errorf("the longest does not win: %q", got)
	}
}

// A text is searched for each of many values.
func TestTextOfManyValues(t *testing.T) {
	var all, text, want []string
	for i := range 200 {
		value := fmt.Sprintf("%dsecret%d", i, i*i)
		reference := fmt.Sprintf("${V%d}", i)
		all = append(all, reference, value)
		if i%3 == 0 {
			text, want = append(text, value), append(want, reference)
		}
	}
	all, text, want = append(all, "${SHORT}", "7"), append(text, `"7"`), append(want, `"${SHORT}"`)
	if got := redactor(all...).Text(strings.Join(text, " ")); got != strings.Join(want, " ") {
		t.Errorf("got %s", got)
	}
}

func TestError(t *testing.T) {
	r := redactor("${V}", "canary-51c0a7")
	if err := r.Error(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	plain := errors.New("harmless")
	if err := r.Error(plain); err != plain {
		t.Errorf("an error without values became %v", err)
	}
	cause := errors.New("refused canary-51c0a7")
	if err := r.Error(fmt.Errorf("cannot open: %w", cause)); err.Error() != "cannot open: refused ${V}" ||
		!errors.Is(err, cause) {
		t.Errorf("redacted as %q, wraps its cause: %v", err, errors.Is(err, cause))
	}
}

func TestHandler(t *testing.T) {
	var b strings.Builder
	log := slog.New(redactor("${V}", "canary-51c0a7").Handler(slog.NewTextHandler(&b, nil))).With("component",
		"test").WithGroup("g")
	log.Info("done", "path", "/x/canary-51c0a7", "err", errors.New("no canary-51c0a7"), "n", 7)
	if _, got, _ := strings.Cut(b.String(), "msg="); got != `done component=test g.path=/x/${V} g.err="no ${V}" g.n=7`+
		"\n" {
		t.Errorf("logged %q", got)
	}
}

// Logs of plugins are redacted in messages, groups, maps and lists; harmless values stay unchanged.
func TestHandlerOfObjects(t *testing.T) {
	var b strings.Builder
	log := slog.New(redactor("${V}", "canary-51c0a7").Handler(slog.NewJSONHandler(&b, nil)))
	log.Info("no canary-51c0a7", slog.Group("g", "a", "canary-51c0a7"), "m",
		map[string]string{"p": "canary-51c0a7", "q": "r"}, "l", []string{"x canary-51c0a7"},
		"n", []int{1}, "nothing", nil)
	want := `"msg":"no ${V}","g":{"a":"${V}"},"m":{"p":"${V}","q":"r"},"l":["x ${V}"],"n":[1],"nothing":null}` + "\n"
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("logged %q", b.String())
	}
}

// Secret settings are redacted in all their forms in texts, and so are secrets within them alone. Harmless values are
// not.
func TestAddSettings(t *testing.T) {
	r := redactor("${V}", "canary-ref")
	r.AddSettings(map[string]string{"password": "a<canary>&b c", "url": "postgres://u:canary-url@h/db",
		"token": "canary-ref", "auth.type": "basic",
		"session.timeout": "30s", "password.required": "true", "path": "/var/lib/data"})
	for text, want := range map[string]string{
		"a<canary>&b c":                        "***",
		`{"p":"a\u003ccanary\u003e\u0026b c"}`: `{"p":"***"}`,
		"a%3Ccanary%3E%26b+c":                  "***",
		"to postgres://u:canary-url@h/db":      "to ***",
		"password canary-url refused":          "password *** refused",
		"canary-ref":                           "${V}",
		"basic 30s true /var/lib/data":         "basic 30s true /var/lib/data",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q is redacted as %q, want %q", text, got, want)
		}
	}
}

// The pieces into which URLs cut a secret are redacted; plain words and numbers are not.
func TestPieces(t *testing.T) {
	for _, c := range []struct{ reference, value, text, want string }{
		{"${P}", "hunter2@s3cret.x/y#z", "lookup s3cret.x: no such host; hunter2; y z", "lookup ${P}: no such host; " +
			"${P}; y z"},
		{"${P}", "hunter2@s3cret.x/y#z", "hunter2%40s3cret.x%2Fy%23z hunter2%40s3cret.x%2fy%23z", "${P} ${P}"},
		{"${P}", "hunter2@S3cret.X", "lookup s3cret.x", "lookup ${P}"},
		{"${P}", "hunter2@s3cret.x/y#z", "aHVudGVyMkBzM2NyZXQueC95I3o=", "${P}="},
		{"${P}", "hunter2@s3cre.x", "s3cre.xyz whunter2", "s3cre.xyz whunter2"},
		{"${P}", "pass:word/orders#2024", "the orders of 2024, password and word", "the orders of 2024, password " +
			"and word"},
		{"${file:/p}", "a/Xk9-aB%41", `invalid port ":Xk9-aB"`, `invalid port ":${file:/p}"`},
		{"${P}", "Xk+aB/mNoP", "at mNoP", "at ${P}"},
		{"${U}", "postgres://bob:hunter2@s3cret.x/y@127.0.0.1/shop1", "no s3cret.x or hunter2; bob shop1 127.0.0.1",
			"no ${U} or ${U}; bob shop1 127.0.0.1"},
		{"${U}", "postgres://bob:hun%40ter2@h/shop1", "hun@ter2 ter2", "${U} ${U}"},
		{"${U}", "https://api.example.com/v1/users/list2", "/v1/users/list2", "/v1/users/list2"},
		{"postgres://u:${P}@db1.example.com/shop1", "postgres://u:x@db1.example.com/shop1", "db1.example.com shop1",
			"db1.example.com shop1"},
		{"orders/${E}/year1", "orders/prod1/year1", "prod1 year1", "prod1 year1"},
		{"${DIR}", "/srv/data1/in2", "/srv/data1 in2", "/srv/data1 in2"},
		{"${ADDR}", "db1.example.com:5432", "lookup db1.example.com on port 5432", "lookup db1.example.com on " +
			"port 5432"},
		{"${file:/p}", "/srv1/dat2", "at srv1 and dat2", "at ${file:/p} and ${file:/p}"},
	} {
		if got := redactor(c.reference, c.value).Text(c.text); got != c.want {
			t.Errorf("%q without %q is %q, want %q", c.text, c.value, got, c.want)
		}
	}
	var r redact.Redactor
	r.AddSettings(map[string]string{"password": "hunter2@s3cret.x", "url": "amqp://bob:w0rd%2Fsn0w@host1/vhost1",
		"dsn": "ann:dsn0/p4ss@tcp(h0st:3306)/db1"})
	if got, want := r.Text("s3cret.x hunter2 w0rd/sn0w sn0w p4ss host1 vhost1 h0st db1"), "*** *** *** *** *** host1 "+
		"vhost1 h0st db1"; got != want {
		t.Errorf("settings are redacted as %q, want %q", got, want)
	}
	r = redact.Redactor{}
	r.Add("${P}", strings.Repeat("a1b2/", 10_000))
	if n := r.Len(); n > 100 {
		t.Errorf("a long value has %d forms", n)
	}
}

// A redactor set to the values of others forgets its former values.
func TestSet(t *testing.T) {
	r := redactor("${OLD}", "canary-old")
	r.Set(redactor("${A}", "canary-one", "${X}", "canary-both"), redactor("${B}", "canary-two", "${Y}", "canary-both"))
	if got := r.Text("canary-old canary-one canary-two canary-both"); got != "canary-old ${A} ${B} ${X}" {
		t.Errorf("redacted as %q", got)
	}
	if r.Set(); r.Len() != 0 {
		t.Error("it knows something still")
	}
}

// redactor makes a redactor of pairs of a reference and its value.
func redactor(pairs ...string) *redact.Redactor {
	r := &redact.Redactor{}
	for i := 0; i < len(pairs); i += 2 {
		r.Add(pairs[i], pairs[i+1])
	}
	return r
}
