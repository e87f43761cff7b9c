package spec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec/texts"
)

// checkSchema reports the violations of the schema in the document fields.
func checkSchema(r *report, fields map[string]any) {
	for _, v := range schemas.PipelineFile.Validate(fields) {
		explain(r, fields, v)
	}
}

// explain reports v in words that include a remedy.
func explain(r *report, fields map[string]any, v schemas.Violation) {
	at := v.InstancePointer
	name, owner := lastToken(at), subject(fields, at)
	value := schemas.AtPointer(fields, at)
	switch v.Keyword {
	case "required":
		r.add(at+"/"+v.Property, SeverityError, CodeRequired, "%s has no %s: %s", owner, v.Property, advice(v.Property))
	case "additionalProperties":
		r.addName(at, SeverityError, CodeUnknown, "%s has no field %q%s (fields: %s)",
			owner, v.Property, texts.Hint(v.Property, v.Want), strings.Join(v.Want, ", "))
	case "type":
		explainType(r, at, owner, value, v.Want)
	case "enum":
		r.add(at, SeverityError, CodeInvalid, "%s of %s must be %s, not %q%s",
			name, owner, strings.Join(v.Want, " or "), fmt.Sprint(value), texts.Hint(fmt.Sprint(value), v.Want))
	case "minLength", "pattern":
		explainText(r, at, owner, value)
	case "maxLength":
		r.add(at, SeverityError, CodeTooLong, "%s of %s is %d characters long, the maximum is %s",
			name, owner, len([]rune(fmt.Sprint(value))), strings.Join(v.Want, ""))
	case "minimum":
		r.add(at, SeverityError, CodeInvalid, "%s of %s must be at least %s, not %v", name, owner,
			strings.Join(v.Want, ""), value)
	default:
		r.add(at, SeverityError, CodeInvalid, "%s is not valid: %s", owner, v.Message)
	}
}

func explainType(r *report, at, owner string, value any, want []string) {
	name := lastToken(at)
	switch {
	case inSettings(at):
		name = schemas.UnescapePointer(name)
		r.add(at, SeverityError, CodeInvalid,
			"setting %q of %s must be a single value, not %s: write its parts as separate settings, like "+
				"%s.part: value",
			name, owner, kind(value), name)
	case want[0] == "boolean":
		r.add(at, SeverityError, CodeInvalid, "%s of %s must be true or false without quotes, not %q", name, owner,
			fmt.Sprint(value))
	case want[0] == "integer":
		r.add(at, SeverityError, CodeInvalid, "%s of %s must be a whole number without quotes, not %q", name, owner,
			fmt.Sprint(value))
	default:
		r.add(at, SeverityError, CodeInvalid, "%s must be %s, not %s", described(name, owner), kinds[want[0]], kind(value))
	}
}

// explainText reports an empty text or a text with invalid characters.
func explainText(r *report, at, owner string, value any) {
	name, text := lastToken(at), fmt.Sprint(value)
	switch {
	case name == "settings":
		r.add(at, SeverityError, CodeInvalid, "%s has a setting without a name", owner)
	case name == "instances":
		r.add(at, SeverityError, CodeInvalid, "instances of %s must be a number from 1 to 64, or all, not %q", owner, text)
	case name == "age":
		r.add(at, SeverityError, CodeInvalid, "age of %s must be a duration such as 24h or 1h30m, not %q", owner, text)
	case text == "":
		r.add(at, SeverityError, CodeRequired, "%s has no %s: %s", owner, name, advice(name))
	default:
		r.add(at, SeverityError, CodeInvalid, "%s %q of %s may contain only letters, digits and - _ : .", name, text,
			owner)
	}
}

// advice returns the remedy for a missing field.
func advice(field string) string {
	switch field {
	case "id":
		return "add an id of letters, digits and - _ : ."
	case "type":
		return "add type: source or type: destination"
	case "plugin":
		return "add the name of a plugin, for example plugin: builtin:log"
	case "pipelines":
		return "add a list of pipelines, or \"pipelines: []\" to declare that there are none"
	}
	return "add it"
}

var kinds = map[string]string{"object": "a map", "array": "a list", "string": "text", "integer": "an integer"}

func kind(value any) string {
	switch value.(type) {
	case map[string]any:
		return kinds["object"]
	case []any:
		return kinds["array"]
	case int:
		return kinds["integer"]
	case string:
		return kinds["string"]
	}
	return "empty"
}

// described describes the value called name, which is an item of a list if name is a number.
func described(name, owner string) string {
	if i, err := strconv.Atoi(name); err == nil {
		return fmt.Sprintf("item %d in %s", i+1, owner)
	}
	return name + " of " + owner
}

// subject describes the innermost pipeline, connector, processor or dead-letter queue on the path of the pointer at.
func subject(fields map[string]any, at string) string {
	what, tokens := "the file", strings.Split(strings.TrimPrefix(at, "/"), "/")
	var value any = fields
	for i, token := range tokens {
		value = schemas.AtPointer(value, "/"+token)
		item, ok := value.(map[string]any)
		if !ok {
			continue
		}
		if token == "dead-letter-queue" {
			what = "the dead-letter queue of " + what
		}
		if i == 0 || token == "settings" {
			continue
		}
		if one, ok := singular[tokens[i-1]]; ok {
			what = named(one, token, item["id"])
		}
	}
	return what
}

var singular = map[string]string{"pipelines": "pipeline", "connectors": "connector", "processors": "processor"}

func named(one, index string, id any) string {
	if id, ok := id.(string); ok && id != "" {
		return fmt.Sprintf("%s %q", one, id)
	}
	i, _ := strconv.Atoi(index)
	return fmt.Sprintf("%s number %d", one, i+1)
}
