package common

import (
	"net"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

var hostAndPort = texts.Regexp(
	`^(?:[\pL\pN._-]*|[0-9A-Fa-f:.]+(?:%[\w.-]+)?|\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\])(?::\w*)?$`)

// CheckAddress returns an sdk.SettingError unless text is a host, which may be empty, or a host and a port. Other text
// may be part of a password, so it must not be resolved or logged.
func CheckAddress(setting, text string) error {
	if hostAndPort().MatchString(text) {
		return nil
	}
	return sdk.SettingError{Setting: setting,
		Message: "must be HOST:PORT, with nothing else: user and password have settings of their own"}
}

// IsLoopback reports whether only programs of this machine can connect to a host.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
