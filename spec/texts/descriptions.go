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
	_, text, _ := strings.Cut("\n"+fields, "\n"+field+": ")
	text, _, _ = strings.Cut(text, "\n")
	return text
}
