package texts

import "strings"

// Description returns the description of a field in descriptions, which plugins/sdk/describe generated from comments.
// owner is the struct with the name of its package, as reflect.Type.String returns it, and field the JSON name of the
// field, after those of the structs without a name around it: "backoff.min". The result is "" if there is none.
func Description(descriptions, owner, field string) string {
	if owner == "" {
		return "" // a struct without a name
	}
	_, fields, _ := strings.Cut(descriptions, "\n"+owner+"\n")
	fields, _, _ = strings.Cut(fields, "\n\n")
	for line := range strings.Lines(fields) {
		if name, text, _ := strings.Cut(line, ": "); name == field {
			return strings.TrimSuffix(text, "\n")
		}
	}
	return ""
}
