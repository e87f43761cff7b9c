package processor_test

import (
	"encoding/binary"
	"encoding/csv"
	"encoding/xml"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// parsers are the cases for the processors that parse a text. Each has its own random texts.
func parsers() []differential {
	return []differential{
		{name: "csv", plugin: "parse.csv", settings: parserOf("columns", "a,b,c", "types", "a:int,c:float",
			"missing", "null", "extra", "drop"), reference: onText(plainCSV),
			random: randomTextOf(`a`, `,`, `1`, `"`, `""`, "\n", "2.5", "é\xff", " ")},
		{name: "kv", plugin: "parse.kv", settings: parserOf(), reference: onText(plainKV),
			random: randomTextOf(`a`, `b`, `=`, `"`, `"x y"`, `"\"\\\n"`, ` `, "\n ", `a=`, "\xff", ` b="`)},
		{name: "protobuf", plugin: "protobuf.decode", settings: parserOf("descriptors", "testdata/shop.binpb", "message",
			"shop.Line", "unknown", "drop"), reference: onText(plainLine),
			random: randomTextOf("\n\x04Lamp", "\x10\x04", "\x10\x03", "\x10", "\n", "\x02", "\x18\x01", "\n\x00")},
		{name: "regex", plugin: "parse.regex", settings: parserOf("pattern", `^(?P<a>[ab]*)=(?:(?P<n>\d+)|(?P<b>b))`,
			"types", "n:int"), reference: onText(plainGroups), random: randomTextOf(`a`, `b`, `=`, `1`, "\n")},
		{name: "grok", plugin: "parse.grok", settings: parserOf("pattern", `^%{AB:a}=(?:%{DIGITS:n:int}|%{WORD:b})`,
			"patterns.AB", "[ab]*", "patterns.DIGITS", `\d+`, "patterns.WORD", "b"), reference: onText(plainPatterns),
			random: randomTextOf(`a`, `b`, `=`, `1`, "\n")},
		{name: "xml", plugin: "parse.xml", settings: parserOf(), reference: onText(plainXML),
			random: randomTextOf("<a>", "</a>", "<b c='d'>", "</b>", "<a>x</a>", "<a>x<b/>y</a>", "<b e='&amp;'/>", "x", " ",
				"<!-- x -->", "\xff")},
		{name: "syslog", plugin: "parse.syslog", settings: parserOf("zone", "America/New_York"),
			reference: onText(plainSyslog), random: randomTextOf("<13>", "<13>1 ", "<192>", "- - - - - ", "- h a 7 ",
				"2024-01-02T03:04:05.6Z ", "Nov 20 10:00:00 ", "Feb 29 10:00:00 ", "host ", "app[1]: ", "app: ", "-",
				`[a b="c"]`, `[a b="d" e="\"\n"]`, `[f]`, " \ufeffx", "x y\n")},
		{name: "time", plugin: "parse.time", settings: parserOf("formats", "%Y-%m-%d %H:%M:%S|unix|rfc3339"),
			reference: onText(plainTime), random: randomTextOf("2024-01-02", "2024-02-30", "T", " ", "03:04:05", "Z",
				"1", "7", ".5")},
		{name: "url", plugin: "parse.url", settings: parserOf(), reference: onText(plainURL),
			random: randomTextOf("http:", "//", "u:p@", "h", ":80", "/", "a", "?", "b=c", "&", "%20", "+", "#", "%",
				"\xff")},
		{name: "tags of csv", plugin: "parse.csv", settings: parserOf("columns", "a", "on-error", "tag"),
			random: randomTextOf(`a`, `,`), reference: one(func(r *record.Record) error {
				m, _ := r.After.Structured()
				text, _ := m["text"].(string)
				if strings.Contains(text, ",") {
					r.Metadata.Set("parse.error", ".Payload.After.text: it has more than 1 columns")
					return nil
				}
				m["text"] = map[string]any{"a": text}
				return nil
			})},
	}
}

func parserOf(settings ...string) map[string]string {
	all := map[string]string{"field": ".Payload.After.text"}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = settings[i+1]
	}
	return all
}

// randomTextOf makes records with a text of some of these pieces.
func randomTextOf(pieces ...string) func(rnd *rand.Rand) record.Record {
	return func(rnd *rand.Rand) record.Record {
		r := randomRecord(rnd)
		var text strings.Builder
		for range rnd.IntN(8) {
			text.WriteString(pick(rnd, pieces...))
		}
		r.After = record.Structured(map[string]any{"text": text.String()})
		return r
	}
}

// onText replaces the text by the result.
func onText(do func(text string) (any, error)) reference {
	return one(func(r *record.Record) error {
		m, _ := r.After.Structured()
		text, _ := m["text"].(string)
		made, err := do(text)
		if err == nil {
			m["text"] = made
		}
		return err
	})
}

func plainCSV(text string) (any, error) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = -1
	all, err := reader.ReadAll()
	switch trimmed := strings.TrimSuffix(text, "\n"); {
	case trimmed == "": // encoding/csv skips empty lines
		all, err = [][]string{{""}}, nil
	case strings.HasPrefix(text, "\n") || strings.HasSuffix(trimmed, "\n"):
		err = errReference
	}
	if err != nil || len(all) != 1 {
		return nil, errReference
	}
	made := map[string]any{"a": nil, "b": nil, "c": nil}
	for i, name := range []string{"a", "b", "c"} {
		if i == len(all[0]) {
			break
		}
		switch column := all[0][i]; {
		case name == "b":
			made[name] = column
		case column == "":
		case name == "a":
			if made[name], err = strconv.ParseInt(column, 10, 64); err != nil {
				return nil, err
			}
		default:
			if made[name], err = strconv.ParseFloat(column, 64); err != nil {
				return nil, err
			}
		}
	}
	return made, nil
}

// logfmt is a pair: a key, quoted or not, perhaps with a value, quoted or not.
var logfmt = regexp.MustCompile(`(?s)^[ \n]*(?:"((?:[^"\\]|\\.)*)"|([^ \n="][^ \n=]*))` +
	`(=(?:"((?:[^"\\]|\\.)*)"|([^ \n"][^ \n]*)?))?(?:[ \n]+|$)`)

func plainKV(text string) (any, error) {
	made := map[string]any{}
	escapes := strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n")
	for text = strings.TrimLeft(text, " \n"); text != ""; {
		m := logfmt.FindStringSubmatch(text)
		if m == nil || m[1]+m[2] == "" {
			return nil, errReference
		}
		key := escapes.Replace(m[1]) + m[2]
		if made[key] = true; m[3] != "" {
			made[key] = escapes.Replace(m[4]) + m[5]
		}
		text = text[len(m[0]):]
	}
	return made, nil
}

func plainGroups(text string) (any, error) {
	key, rest, ok := strings.Cut(text, "=")
	if !ok || strings.Trim(key, "ab") != "" {
		return nil, errReference
	}
	if digits := rest[:len(rest)-len(strings.TrimLeft(rest, "1"))]; digits != "" {
		n, err := strconv.ParseInt(digits, 10, 64)
		return map[string]any{"a": key, "n": n}, err
	}
	if strings.HasPrefix(rest, "b") {
		return map[string]any{"a": key, "b": "b"}, nil
	}
	return nil, errReference
}

var unixTime = regexp.MustCompile(`^[0-9]+([.][0-9]+)?$`)

func plainTime(text string) (any, error) {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return nil, nil
	case unixTime.MatchString(text):
		number, _ := new(big.Rat).SetString(text)
		number.Mul(number, big.NewRat(1e9, 1))
		n := new(big.Int).Quo(number.Num(), number.Denom())
		seconds, rest := n.QuoRem(n, big.NewInt(1e9), new(big.Int))
		if !seconds.IsInt64() || time.Unix(seconds.Int64(), 0).UTC().Year() > 9999 {
			return nil, errReference
		}
		return time.Unix(seconds.Int64(), rest.Int64()).UTC(), nil
	}
	words := strings.Fields(text)
	if len(words) == 1 && len(text) == len("2006-01-0215:04:05") { // a space of a format matches none, too
		words = []string{text[:10], text[10:]}
	}
	t, err := time.Parse("2006-01-02 15:04:05", strings.Join(words, " "))
	if err == nil && !strings.Contains(text, ".") {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

func plainURL(text string) (any, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	all, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, err
	}
	made, parameters := map[string]any{}, map[string]any{}
	for name, values := range all {
		list := []any{}
		for _, v := range values {
			list = append(list, v)
		}
		if parameters[name] = list; len(list) == 1 {
			parameters[name] = list[0]
		}
	}
	for name, part := range map[string]string{"scheme": u.Scheme, "host": u.Hostname(), "user": u.User.Username(),
		"path": u.Opaque + u.Path, "fragment": u.Fragment} {
		if part != "" {
			made[name] = part
		}
	}
	if password, ok := u.User.Password(); ok {
		made["password"] = password
	}
	if u.Port() != "" {
		port, err := strconv.Atoi(u.Port())
		if err != nil || port > 65535 {
			return nil, errReference
		}
		made["port"] = int64(port)
	}
	if u.RawQuery != "" {
		made["query"] = parameters
	}
	return made, nil
}

// plainPatterns is plainGroups without the members that have no text.
func plainPatterns(text string) (any, error) {
	made, err := plainGroups(text)
	members, _ := made.(map[string]any)
	maps.DeleteFunc(members, func(_ string, v any) bool { return v == "" })
	return made, err
}

// node is an element as encoding/xml reads it.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Nodes   []node     `xml:",any"`
	Text    string     `xml:",chardata"`
}

func plainXML(text string) (any, error) {
	// A second element around the text shows what stands beside the document's element.
	var around struct {
		Nodes []node `xml:",any"`
		Text  string `xml:",chardata"`
	}
	if err := xml.Unmarshal([]byte("<around>"+text+"</around>"), &around); err != nil || len(around.Nodes) != 1 ||
		strings.TrimSpace(around.Text) != "" {
		return nil, errReference
	}
	return map[string]any{around.Nodes[0].XMLName.Local: around.Nodes[0].value()}, nil
}

func (n *node) value() any {
	text := strings.TrimSpace(n.Text)
	if len(n.Attrs)+len(n.Nodes) == 0 {
		if text == "" {
			return nil
		}
		return text
	}
	made := map[string]any{}
	for _, a := range n.Attrs {
		made["@"+a.Name.Local] = a.Value
	}
	times := map[string][]any{}
	for i := range n.Nodes {
		name := n.Nodes[i].XMLName.Local
		times[name] = append(times[name], n.Nodes[i].value())
	}
	for name, all := range times {
		if made[name] = any(all); len(all) == 1 {
			made[name] = all[0]
		}
	}
	if text != "" {
		made["#text"] = text
	}
	return made
}

var (
	message5424 = regexp.MustCompile(`(?s)^<(\d{1,3})>1 ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ` +
		`(-|(?:\[[^ \]]+(?: +[^ \]"=]+="(?:[^"\\]|\\.)*")*\])+)(?: (.*))?$`)
	element5424 = regexp.MustCompile(`(?s)\[([^ \]]+)((?: +[^ \]"=]+="(?:[^"\\]|\\.)*")*)\]`)
	pair5424    = regexp.MustCompile(`(?s) +([^ \]"=]+)="((?:[^"\\]|\\.)*)"`)
	message3164 = regexp.MustCompile(`(?s)^(?:<(\d{1,3})>)?(?:([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-[^ ]+) ` +
		`(?:([^ ]*[^ :\]]) )?(?:([^ :\[]{1,47})(?:\[([^\]]*)\])?: ?)?)?(.*)$`)
)

func plainSyslog(text string) (any, error) {
	text = strings.TrimRight(text, "\r\n\x00")
	made := map[string]any{}
	set := func(name, value string) {
		if value != "" {
			made[name] = value
		}
	}
	if m := message5424.FindStringSubmatch(text); m != nil {
		for i, name := range []string{"timestamp", "hostname", "appname", "procid", "msgid"} {
			if m[2+i] != "-" {
				set(name, m[2+i])
			}
		}
		data := map[string]any{}
		for _, e := range element5424.FindAllStringSubmatch(m[7], -1) {
			if data[e[1]] == nil {
				data[e[1]] = map[string]any{}
			}
			for _, p := range pair5424.FindAllStringSubmatch(e[2], -1) {
				value := strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\]`, `]`).Replace(p[2])
				record.AddRepeated(data[e[1]].(map[string]any), p[1], value)
			}
		}
		if len(data) > 0 {
			made["structured_data"] = data
		}
		if _, err := time.Parse(time.RFC3339, m[2]); err != nil && m[2] != "-" {
			return nil, err
		}
		made["message"] = strings.TrimPrefix(m[8], "\ufeff")
		return made, plainPriority(m[1], made)
	}
	m := message3164.FindStringSubmatch(text)
	if strings.HasPrefix(text, "<13>1 ") || m[1]+m[2] == "" || m[1] != "" && m[1] != "13" {
		return nil, errReference
	}
	if made["message"] = m[6]; m[2] != "" {
		made["timestamp"] = m[2]
		set("hostname", m[3])
		set("appname", m[4])
		set("procid", m[5])
	}
	if m[2] != "" && m[2][0] > '9' {
		zone, _ := time.LoadLocation("America/New_York")
		var nearest time.Time
		for y := range 50 {
			t, err := time.ParseInLocation("2006 Jan _2 15:04:05", strconv.Itoa(2000+y)+" "+m[2], zone)
			if err == nil && time.Since(t).Abs() < time.Since(nearest).Abs() {
				nearest = t
			}
		}
		made["timestamp"] = nearest.Format(time.RFC3339)
	}
	if m[1] == "" {
		return made, nil
	}
	return made, plainPriority(m[1], made)
}

func plainPriority(digits string, made map[string]any) error {
	if digits != "13" {
		return errReference
	}
	made["priority"], made["facility"], made["severity"] = int64(13), "user", "notice"
	return nil
}

// plainLine decodes a message with a text (1) and a number in zigzag (2). Fields with numbers above 2 are unknown.
func plainLine(text string) (any, error) {
	made := map[string]any{}
	number := func() (uint64, error) {
		n, size := binary.Uvarint([]byte(text))
		if size <= 0 {
			return 0, errReference
		}
		text = text[size:]
		return n, nil
	}
	for text != "" {
		tag, err := number()
		if err != nil || tag < 8 {
			return nil, errReference
		}
		if fixed := map[uint64]int{1: 8, 5: 4}[tag&7]; fixed > 0 {
			if len(text) < fixed {
				return nil, errReference
			}
			text = text[fixed:]
			continue
		}
		n, err := number()
		if err != nil {
			return nil, err
		}
		switch tag & 7 {
		case 0:
			if tag>>3 == 2 {
				if made["pieces"] = int64(n>>1) ^ -int64(n&1); n == 0 {
					delete(made, "pieces")
				}
			}
		case 2:
			if n > uint64(len(text)) {
				return nil, errReference
			}
			if tag>>3 == 1 {
				if made["article"] = text[:n]; n == 0 {
					delete(made, "article")
				}
			}
			text = text[n:]
		default:
			return nil, errReference
		}
	}
	return made, nil
}
