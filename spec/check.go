package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec/texts"
)

// maxQualifiedID is the maximum length of a qualified connector id.
const maxQualifiedID = 256

// check reports problems of the pipeline at the pointer at that the schema cannot express. Violations of the schema
// must have been reported already.
func check(r *report, at string, p *Pipeline) {
	checkTopology(r, at, p)
	for i := range p.Connectors {
		checkConnector(r, fmt.Sprintf("%s/connectors/%d", at, i), p, &p.Connectors[i])
	}
	checkIDs(r, at+"/connectors", "connector", func(i int) (string, bool) {
		if i < len(p.Connectors) {
			return p.Connectors[i].ID, true
		}
		return "", false
	})
	checkProcessors(r, at+"/processors", p.Processors)
	checkRoutes(r, at, p)
	checkIsolation(r, at, p)
	checkDeadLetterQueue(r, at+"/dead-letter-queue", &p.DeadLetterQueue)
	for _, one := range CheckInstances(p, false) {
		r.add(at+one.Path, one.Severity, one.Code, "%s", one.Message)
	}
}

// checkTopology reports a missing source or destination, unless another fault in the connectors would make that report
// misleading.
func checkTopology(r *report, at string, p *Pipeline) {
	if r.failed(at) {
		return
	}
	severity := SeverityError
	if p.Status == StatusStopped {
		severity = SeverityWarning
	}
	for _, t := range []ConnectorType{TypeSource, TypeDestination} {
		if !slices.ContainsFunc(p.Connectors, func(c Connector) bool { return c.Type == t }) {
			r.add(at+"/connectors", severity, CodeRequired,
				"pipeline %q has no %s: a pipeline runs only with at least one source and one destination; add a "+
					"connector with type: %s", p.ID, t, t)
		}
	}
}

func checkConnector(r *report, at string, p *Pipeline, c *Connector) {
	if n := len(p.QualifiedID(c.ID)); n > maxQualifiedID && !r.failed(at+"/id") {
		r.add(at+"/id", SeverityError, CodeTooLong,
			"id of connector %q is too long: together with the id of the pipeline it has %d characters, the maximum "+
				"is %d",
			c.ID, n, maxQualifiedID)
	}
	checkPlugin(r, at+"/plugin", c.Plugin)
	checkSettings(r, at, c.Settings)
	checkProcessors(r, at+"/processors", c.Processors)
}

func checkProcessors(r *report, at string, all []Processor) {
	for i := range all {
		p, at := &all[i], fmt.Sprintf("%s/%d", at, i)
		checkPlugin(r, at+"/plugin", p.Plugin)
		checkSettings(r, at, p.Settings)
		if err := parseCondition(p.Condition); err != nil {
			r.add(at+"/condition", SeverityError, CodeInvalid, "condition of processor %q is not a Go template: %v",
				p.ID, err)
		}
	}
	checkIDs(r, at, "processor", func(i int) (string, bool) {
		if i < len(all) {
			return all[i].ID, true
		}
		return "", false
	})
}

func parseCondition(text string) error {
	tree := parse.New("condition")
	tree.Mode = parse.SkipFuncCheck // the processors check which functions exist
	if _, err := tree.Parse(text, "", "", map[string]*parse.Tree{}); err != nil {
		if line, message, ok := texts.TemplateSyntax("condition", err); ok {
			return fmt.Errorf("at line %s of it: %s", line, message)
		}
		return err
	}
	return nil
}

func checkDeadLetterQueue(r *report, at string, q *DeadLetterQueue) {
	checkPlugin(r, at+"/plugin", q.Plugin)
	checkSettings(r, at, q.Settings)
	if n, err := strconv.Atoi(q.Settings["sdk.batch.size"]); err == nil && n > 1 {
		r.add(at+"/settings/sdk.batch.size", SeverityError, CodeInvalid,
			"the dead-letter queue cannot batch records, because the pipeline waits for each record; remove "+
				"sdk.batch.size")
	}
	if q.WindowSize > 0 && q.WindowNackThreshold >= q.WindowSize {
		r.add(at+"/window-nack-threshold", SeverityError, CodeInvalid,
			"window-nack-threshold of the dead-letter queue is %d and window-size is %d: it must be less than "+
				"window-size, or window-size 0 to tolerate any number", q.WindowNackThreshold, q.WindowSize)
	}
}

// checkIDs reports duplicate ids in the list at the pointer at.
func checkIDs(r *report, at, what string, id func(int) (string, bool)) {
	first := map[string]int{}
	for i := 0; ; i++ {
		id, ok := id(i)
		if !ok {
			return
		}
		before, again := first[id]
		if !again {
			first[id] = i
			continue
		}
		if id == "" {
			continue
		}
		where := fmt.Sprintf("numbers %d and %d in the list", before+1, i+1)
		if m := r.find(fmt.Sprintf("%s/%d/id", at, before)).Value; m.Line > 0 {
			where = fmt.Sprintf("at lines %d and %d", m.Line, r.find(fmt.Sprintf("%s/%d/id", at, i)).Value.Line)
		}
		r.add(fmt.Sprintf("%s/%d/id", at, i), SeverityError, CodeDuplicateID,
			"two %ss have the id %q, %s: give each a different id", what, id, where)
	}
}

var (
	pluginKinds = []string{"any", "builtin", "standalone"}
	pluginName  = texts.Regexp(`^[A-Za-z0-9_./+-]+$`)
	pluginVer   = texts.Regexp(`^[A-Za-z0-9_.+-]+$`)
)

// checkPlugin reports a plugin name that is not [builtin:|standalone:|any:]name[@version]. A name with references is
// checked when they are resolved.
func checkPlugin(r *report, at, plugin string) {
	refs, problem := r.kinds.Scan(plugin)
	if problem != "" {
		r.add(at, SeverityError, CodeReference, "%s", problem)
		return
	}
	if plugin == "" || len(refs) > 0 {
		return
	}
	kind, rest, ok := strings.Cut(plugin, ":")
	if !ok {
		kind, rest = "any", plugin
	}
	name, version, versioned := strings.Cut(rest, "@")
	switch {
	case !slices.Contains(pluginKinds, kind):
		r.add(at, SeverityError, CodeInvalid, "plugin %q starts with %q, which must be builtin, standalone or any%s",
			plugin, kind, texts.Hint(kind, pluginKinds))
	case !pluginName().MatchString(name), versioned && !pluginVer().MatchString(version):
		r.add(at, SeverityError, CodeInvalid,
			"%q is not the name of a plugin: write name or name@version, with builtin: or standalone: before it "+
				"where both exist", plugin)
	}
}

// Redacted stands for a secret in displayed settings.
const Redacted = "***"

// checkSecrets reports texts with a redacted secret, and warns of texts with a literal secret.
func checkSecrets(r *report, at string, p *Pipeline) {
	eachText(p, func(path, what string, text *string) {
		if *text == Redacted {
			r.add(at+path, SeverityError, CodeInvalid,
				"%s is %s, the placeholder of an exported secret: write a reference such as ${file:/path}", what,
				Redacted)
		} else if IsLiteralSecret(schemas.UnescapePointer(lastToken(path)), *text) {
			r.add(at+path, SeverityWarning, CodeSecretLiteral,
				"%s contains a secret in plain text, which everyone who can read the file sees: write a reference "+
					"instead, such as ${file:/path} or ${VAR}", what)
		}
	})
}

// checkSettings reports malformed references in settings. at is the pointer of the owner of the settings.
func checkSettings(r *report, at string, settings map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if _, problem := r.kinds.Scan(settings[name]); problem != "" {
			r.add(at+"/settings/"+schemas.EscapePointer(name), SeverityError, CodeReference, "setting %q: %s", name,
				problem)
		}
	}
}
