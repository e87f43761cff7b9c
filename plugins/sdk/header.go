package sdk

import "strings"

// CheckHeader returns a SettingError for setting unless value is a valid HTTP header value, one line of text. A
// resolved reference may contain more lines, which must not become further headers.
func CheckHeader(setting, value string) error {
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return SettingError{setting, "cannot be sent in a header, because it has a line break or another control " +
			"character: if it comes from a file, the file must have one line"}
	}
	return nil
}
