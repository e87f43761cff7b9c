package sdk

import "strings"

// CheckHeader returns a SettingError of setting unless value can be that of a header of HTTP: one line of text. What a
// reference led to may have more lines, which must not become other headers.
func CheckHeader(setting, value string) error {
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return SettingError{setting, "cannot be sent in a header: it has a line break or another control character; " +
			"a file that it comes from must have one line"}
	}
	return nil
}
