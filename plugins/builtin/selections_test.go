package builtin_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// selections has, for each source, settings that select tables or similar items. If the settings select something
// twice, or less than they appear to, the entry has a part of the error. Entries without an error are valid.
var selections = map[string]struct {
	setting string
	with    map[string]string
	values  map[string]string
}{
	"exec":      {}, // reads one command
	"generator": {}, // generates its own items
	"http":      {}, // reads one path or one URL
	"otlp":      {}, // reads everything that is sent to it
	"prometheus": {setting: "targets", with: map[string]string{"mode": "scrape"}, values: map[string]string{
		"http://a,http://a/metrics": "", "http://a,http://a": "twice", "a:9100": "must be a URL",
	}},
	"spool":     {}, // reads a single directory
	"socket":    {}, // reads everything that is sent to it
	"syslog":    {}, // reads everything that is sent to it
	"websocket": {}, // reads everything that is sent to it
	"file": {setting: "path", values: map[string]string{
		"/no/such/*.log": "", "/no/such/[ab]?.log": "", "/no/such/name": "", "/no/such/{name}": "",
		"/no/such/**/*.log": "", "/no/such/**": "", "/no/such/a**.log": "**",
		"/no/such/{a,b}.log": "{…,…}", "/no/such/[ab.log": "[", "~/a.log": "~",
	}},
	"journald": {setting: "matches", values: map[string]string{
		"_UID=1000": "", "_UID=1000,_UID=1001": "",
		"_SYSTEMD_UNIT=ssh*": "only units supports patterns", "_UID=1,_UID=1": "twice",
	}},
	"journald units": {setting: "units",
		values: map[string]string{"ssh*,nginx.service": "", "a.service,a.service": "twice"}},
	"kafka": {setting: "topics", with: map[string]string{"servers": "127.0.0.1:1"}, values: map[string]string{
		"orders": "", "orders,Orders.v1_x-y": "",
		"orders.*": "patterns are", "^orders$": "patterns are", "orders-[0-9]+": "patterns are", "a|b": "patterns are",
		"orders,orders": "twice", strings.Repeat("a", 250): "up to 249",
	}},
	"mqtt": {setting: "topics", with: map[string]string{"url": "mqtt://127.0.0.1:1"}, values: map[string]string{
		"a/#": "", "a/+,b/+/c": "", "a/+/c,a/b/d": "", "#,$SYS/#": "",
		"+/a,$SYS/a": "", "$share/g/a/#": "", "a,b": "", "a/b,a/b/c": "", "/a,a": "",
		"a/#,a/b": `"a/#" and "a/b"`, "a/b,a/#": "and", "a/#,a": "and", "#,a": "and",
		"+/b,a/+": "and", "a/+/#,a/b": "and", "$share/g/a/#,a/b": "and", "$SYS/#,$SYS/a": "and",
		"a,a": "twice", "a/*": "*", "a*": "*", "a/b#": "#", "a/#/b": "#", "a/b+": "+", "+a/b": "+",
		"$share/g": "$share",
	}},
	"mysql": {setting: "tables",
		with: map[string]string{"address": "127.0.0.1:1", "database": "shop", "user": "u"}, values: map[string]string{
			"*": "", "a,b": "", "shop.*": "", "a,other.a": "", "a,shop.*": "", "orders_%": "",
			"ord*": "within a name", "shop.ord*": "within a name", "*.orders": "within a name", "*.*": "within a name",
			"shop.orders_.*": "within a name",
			"a,a":            "twice", "a,shop.a": "and", "*,a": "stands alone",
		}},
	"nats": {setting: "subjects",
		with: map[string]string{"url": "nats://127.0.0.1:1", "type": "core"}, values: map[string]string{
			"a.>": "", "a.*,b.*": "", "a.*.c,a.b.d": "", "a,a.b": "", "a.*,a.b.c": "", "a.>,a": "",
			"a.>,a.b": "and", "a.*,a.b": "and", "*.b,a.*": "and", ">,a": "and", "a,a": "twice",
			"a*": "*", "a.b*": "*", "a.>.b": ">", "a>": ">", "a..b": "not a subject", ".a": "not a subject",
			"a b": "not a subject", "a/#": "MQTT", "a/+/b": "MQTT",
		}},
	"nats stream": {setting: "subjects", with: map[string]string{"url": "nats://127.0.0.1:1", "stream": "S"},
		values: map[string]string{"a.>,a.b": "and", "a.*": ""}},
	"postgres": {setting: "tables",
		with: map[string]string{"url": "postgres://u@127.0.0.1:1/d"}, values: map[string]string{
			"*": "", "orders_*,s.*": "", "a,s.a": "", "orders_*,orders_2026": "", "a b": "", "s.a.b": "",
			"public.orders_.*": "regular expression", "orders_[0-9]*": "regular expression", "^orders*": "regular " +
				"expression", "(a|b)*": "regular expression", "orders%*": "LIKE",
			"*.orders": "each schema", "*.*": "each schema", "a,a": "twice", "a,public.a": "and", "*,a": "stands alone",
		}},
	"redis": {setting: "key", with: map[string]string{"url": "redis://127.0.0.1:1"}, values: map[string]string{
		"orders": "", "a?b": "", "a[1]": "", "orders:*": "exact key", "*": "exact key", "a,b": "one key",
	}},
	"redis list": {setting: "key", with: map[string]string{"url": "redis://127.0.0.1:1", "type": "list"},
		values: map[string]string{"jobs": "", "jobs*": "exact key"}},
	"redis channels": {setting: "key",
		with: map[string]string{"url": "redis://127.0.0.1:1", "type": "pubsub"}, values: map[string]string{
			"a,b": "", "a.*,b.*": "", "a?,a": "", "a[12],a[34]": "",
			"a[^1],a1": "", `a\*,ab`: "", "a*x,a*y": "", "[a-c]1,d1": "",
			"a.*,a.b": "and", "a.b,a.*": "and", "a*,*b": "and", "*,a": "and", "a?,ab": "and", "a[1-3],a2": "and",
			"a[^1],a[2]": "and", "a[12],a[23]": "and", `a\*,a*`: "and", "*a*b,a*c*b": "and", "**,x": "and",
			"a,a": "twice", "a.>": "another system", "a/#": "another system",
		}},
	"file exclude": {setting: "exclude", with: map[string]string{"path": "/no/such/*.log"}, values: map[string]string{
		"*.tmp,/no/such/**/x": "", "a**": "**", "a/{b,c}": "", "[a": "[",
	}},
	"s3": {setting: "prefix", with: map[string]string{"aws.bucket": "b", "aws.region": "eu-west-1"},
		values: map[string]string{"": "", "logs/2026": "", "logs/*.json": "is plain text, not a pattern"}},
	"s3 prefixes": {setting: "prefixes",
		with: map[string]string{"aws.bucket": "b", "aws.region": "eu-west-1"}, values: map[string]string{
			"a/,b/": "", "a/,a/b/": "twice", "a/,a/": "twice", "a/*,b/": "not a pattern",
		}},
	"sqlite": {setting: "tables", with: map[string]string{"path": "a.db"}, values: map[string]string{
		"*": "", "a,b": "", "a,a": "twice", "a,A": "and", "ord*": "within a name", "main.*": "within a name",
		"*,a": "stands alone",
	}},
}

// TestSelections fails for a source that is missing in the table.
func TestSelections(t *testing.T) {
	t.Parallel()
	for _, c := range builtin.All() {
		if c.NewSource == nil {
			continue
		}
		if _, listed := selections[c.Name]; !listed {
			t.Errorf("source %s: which settings select what is read, and can they select something twice, or less "+
				"than they look like? Add it to selections", c.Name)
		}
		for name, selection := range selections {
			if source, _, _ := strings.Cut(name, " "); source != c.Name {
				continue
			}
			for value, words := range selection.values {
				t.Run(name+"/"+value, func(t *testing.T) {
					t.Parallel()
					given := map[string]string{selection.setting: value}
					maps.Copy(given, selection.with)
					if path := given["path"]; c.Name == "sqlite" {
						given["path"] = filepath.Join(t.TempDir(), path)
					}
					ctx := sdk.WithEnv(context.Background(), &sdk.Env{ConnectorID: "p:source"})
					err := sdk.Standard(c).NewSource().Configure(ctx, given)
					var wrong sdk.SettingError
					switch {
					case words == "" && err != nil:
						t.Errorf("refused: %v", err)
					case words != "" && (!errors.As(err,
						&wrong) || wrong.Setting != selection.setting || !strings.Contains(wrong.Message, words)):
						t.Errorf("got %v, want an error of %s with %q", err, selection.setting, words)
					}
				})
			}
		}
	}
}
