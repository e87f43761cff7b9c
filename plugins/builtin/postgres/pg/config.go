package pg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/lazy"
)

// ParseConfig parses address. Its error does not have the password.
func ParseConfig(address string) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig(address)
	if err == nil {
		return c, nil
	}
	var parse *pgconn.ParseConfigError
	var syntax *url.Error // which quotes the URL
	if errors.As(err, &syntax) || !errors.As(err, &parse) || parse.Unwrap() == nil {
		return nil, errors.New("cannot be read: want postgres://user:password@host:port/database; letters such as @ and / in a password are written %40 and %2F")
	}
	return nil, fmt.Errorf("cannot be read: %w", withoutURL(parse.Unwrap(), address))
}

// fileKeys are the parameters of a connection that name files.
var fileKeys = []string{"sslrootcert", "sslcert", "sslkey", "passfile", "servicefile"}

// filePattern matches one of them in key=value pairs.
var filePattern = lazy.Regexp(`\b(sslrootcert|sslcert|sslkey|passfile|servicefile)\s*=\s*('(?:[^'\\]|\\.)*'|\S+)`)

// CheckFiles returns an error when address names a file that settings may not name. It comes
// before the address is parsed, which opens them.
func CheckFiles(ctx context.Context, address string) error {
	var paths []string
	if u, err := url.Parse(address); err == nil && u.Scheme != "" {
		for _, key := range fileKeys {
			paths = append(paths, u.Query()[key]...)
		}
	} else {
		for _, m := range filePattern().FindAllStringSubmatch(address, -1) {
			paths = append(paths, strings.Trim(m[2], "'"))
		}
	}
	for _, path := range paths {
		if path == "system" { // the certificates of the machine
			continue
		}
		if err := sdk.CheckPath(ctx, "url", path); err != nil {
			return err
		}
	}
	return nil
}

// withoutURL keeps an error from quoting the URL.
func withoutURL(err error, url string) error {
	if text := err.Error(); strings.Contains(text, url) {
		return errors.New(strings.ReplaceAll(text, url, "the URL"))
	}
	return err
}
