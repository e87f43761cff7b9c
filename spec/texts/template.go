package texts

import "strings"

// templateRemedies are remedies for errors of the parser of text/template, by a part of their text.
var templateRemedies = []struct{ part, remedy string }{
	{"bad character U+0024 '$'", "write one $ before the name of a variable; only settings of pipeline files have $$"},
	{"bad character U+005B '['", `read a key that is no plain word with index: {{ index .Metadata "a.b" }}`},
	{"bad character", `write a key that is no plain word with index: {{ index .Metadata "a-b" }}`},
	{"unclosed action", "end it with }}"},
	{"unexpected EOF", "end each if, with, range and define with {{ end }}"},
	{"unexpected {{end}}", "it has no if, with or range before it"},
	{"unterminated quoted string", `end the text with "`},
	{"undefined variable", "declare it before, in the same or an outer block: {{ $name := … }}"},
	{"missing value", "write an expression after it, such as .Key"},
}

// TemplateSyntax splits an error of the parser of text/template, of the template called name, into its line and its
// message with a remedy. It returns false if err has another form.
func TemplateSyntax(name string, err error) (line, message string, ok bool) {
	line, message, ok = strings.Cut(strings.TrimPrefix(err.Error(), "template: "+name+":"), ": ")
	if !ok {
		return "", "", false
	}
	for _, r := range templateRemedies {
		if strings.Contains(message, r.part) {
			return line, message + ": " + r.remedy, true
		}
	}
	return line, message, true
}
