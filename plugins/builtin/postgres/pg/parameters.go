package pg

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// errSyntax is the error of an address that is neither a URL nor key=value pairs. It quotes no part of the address,
// since the invalid part may be the password.
var errSyntax = errors.New("must be postgres://user:password@host:port/database; write @ and / in a " +
	"password as %40 and %2F")

// parameters returns the connection parameters by name, from a URL or key=value pairs as libpq reads them. Its errors
// contain no values.
func parameters(address string) (map[string]string, error) {
	if strings.ContainsRune(address, 0) {
		return nil, errSyntax
	}
	var p map[string]string
	var err error
	if _, rest, ok := cutScheme(address); ok {
		p, err = ofURL(rest)
	} else {
		p, err = ofPairs(address)
	}
	if err != nil {
		return nil, err
	}
	for name := range p {
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	return p, checkHosts(p["host"], p["port"])
}

func cutScheme(address string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(address, "://")
	return scheme, rest, ok && (scheme == "postgres" || scheme == "postgresql")
}

// set stores a parameter. It replaces aliases of names and values.
func set(p map[string]string, name, value string) error {
	switch name {
	case "dbname":
		name = "database"
	case "ssl":
		if value != "true" {
			return errors.New("has the parameter ssl with a value other than true: use sslmode")
		}
		name, value = "sslmode", "require"
	}
	p[name] = value
	return nil
}

// ofURL returns the parameters of a URL without its scheme:
// [user[:password]@][host[:port],…][/database][?name=value&…].
func ofURL(rest string) (map[string]string, error) {
	p := map[string]string{}
	authority := rest
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' { // a ? in the password does not end it
		user, password, _ := strings.Cut(rest[:i], ":")
		authority = rest[i+1:]
		if err := errors.Join(unescaped(p, "user", user), unescaped(p, "password", password)); err != nil {
			return nil, err
		}
	}
	authority, query, _ := strings.Cut(authority, "?")
	authority, path, _ := strings.Cut(authority, "/")
	if strings.ContainsAny(path, "@#") { // probably the rest of a password, and the host
		return nil, errors.New("has @ or # in the database name: write them as %40 and %23, in a password too")
	}
	var hosts, ports []string
	for server := range strings.SplitSeq(authority, ",") {
		host, port, err := splitServer(server)
		if err != nil {
			return nil, err
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	err := errors.Join(unescaped(p, "host", strings.Join(hosts, ",")), unescaped(p, "database", path))
	if ports := strings.Join(ports, ","); ports != "" {
		err = errors.Join(err, unescaped(p, "port", ports))
	}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name, nerr := url.PathUnescape(name)
		if !ok || nerr != nil {
			return nil, errSyntax
		}
		err = errors.Join(err, unescaped(p, name, value))
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// unescaped stores a decoded part of a URL unless it is empty.
func unescaped(p map[string]string, name, part string) error {
	value, err := url.PathUnescape(part)
	if err != nil || strings.ContainsRune(value, 0) {
		return errSyntax
	}
	if value == "" && (name == "user" || name == "password" || name == "host" || name == "database") {
		return nil
	}
	return set(p, name, value)
}

// splitServer splits host[:port]. An IPv6 address is in brackets.
func splitServer(server string) (host, port string, err error) {
	if inside, ok := strings.CutPrefix(server, "["); ok {
		if host, port, ok = strings.Cut(inside, "]"); !ok || host == "" || port != "" && port[0] != ':' {
			return "", "", errSyntax
		}
		return host, strings.TrimPrefix(port, ":"), nil
	}
	host, port, _ = strings.Cut(server, ":")
	return host, port, nil
}

const space = " \t\n\r\v\f"

// ofPairs returns the parameters of key=value pairs. A value may be in single quotes, and a backslash escapes the next
// character.
func ofPairs(text string) (map[string]string, error) {
	p := map[string]string{}
	for text = strings.TrimLeft(text, space); text != ""; {
		name, rest, ok := strings.Cut(text, "=")
		if name = strings.TrimRight(name, space); !ok || name == "" || strings.ContainsAny(name, space) {
			return nil, errSyntax
		}
		value, rest, err := cutValue(strings.TrimLeft(rest, space))
		if err == nil {
			err = set(p, name, value)
		}
		if err != nil {
			return nil, err
		}
		text = strings.TrimLeft(rest, space)
	}
	return p, nil
}

func cutValue(text string) (value, rest string, err error) {
	text, quoted := strings.CutPrefix(text, "'")
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			if i++; i < len(text) {
				b.WriteByte(text[i])
			}
		case quoted && c == '\'':
			return b.String(), text[i+1:], nil
		case !quoted && strings.IndexByte(space, c) >= 0:
			return b.String(), text[i:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		return "", "", errSyntax
	}
	return b.String(), "", nil
}

// connecting lists the parameters that pgx reads itself and does not send to the server, except those that name files.
var connecting = []string{
	"host", "port", "database", "user", "password", "connect_timeout", "sslmode", "sslcertmode", "sslnegotiation",
	"sslpassword", "sslsni",
	"krbspn", "krbsrvname", "target_session_attrs", "min_protocol_version", "max_protocol_version", "channel_binding",
	"require_auth",
}

// Parameters that name files. This package reads the files in place of pgx.
const (
	rootCert = "sslrootcert"
	cert     = "sslcert"
	key      = "sslkey"
	passFile = "passfile"
)

var fileNames = []string{rootCert, cert, key, passFile}

// refused lists parameters of libpq that name files with more parameters, or unsupported files.
var refused = map[string]string{
	"service":       "write the parameters of the service into the URL",
	"servicefile":   "write the parameters of the service into the URL",
	"sslcrl":        "certificate revocation lists are not supported",
	"sslcrldir":     "certificate revocation lists are not supported",
	"sslkeylogfile": "session keys are not logged",
}

var sessionName = texts.Regexp(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

// checkName returns an error unless name is a connection parameter, a file parameter, or a valid name of a session
// setting.
func checkName(name string) error {
	if why, ok := refused[name]; ok {
		return fmt.Errorf("has parameter %s, which is not supported: %s", name, why)
	}
	if !sessionName().MatchString(name) {
		return errors.New("has a parameter that cannot be a PostgreSQL setting: names consist of lower-case " +
			"letters, digits and _")
	}
	return nil
}

// checkHosts returns an error for an invalid host. It may be part of an unescaped password, so it must not be looked up
// or logged.
func checkHosts(hosts, ports string) error {
	for host := range strings.SplitSeq(hosts, ",") {
		if !strings.HasPrefix(host, "/") && strings.ContainsAny(host, "@/?#%\\\"'<>{}|^` \t\r\n") {
			return errors.New("has an invalid host: write @ and / in a password as %40 and %2F")
		}
	}
	all := strings.Split(ports, ",")
	if n := strings.Count(hosts, ",") + 1; len(all) > 1 && len(all) != n {
		return fmt.Errorf("has %d ports for %d hosts: set one port, or one for each host", len(all), n)
	}
	for i, port := range all {
		if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
			return fmt.Errorf("has an invalid port at host %d: use a number from 1 to 65535, and write : and / in a "+
				"password as %%3A and %%2F", i+1)
		}
	}
	return nil
}

// isSession reports whether a parameter is a setting of the session.
func isSession(name string) bool {
	return !slices.Contains(connecting, name) && !slices.Contains(fileNames, name)
}
