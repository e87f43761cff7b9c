package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/desired"
	"github.com/conduit-agent/conduit/api/idempotency"
	"github.com/conduit-agent/conduit/api/resource"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/pointer"
)

var (
	_ desired.Store       = (*store.DB)(nil)
	_ resource.Observed   = (*observed)(nil)
	_ desired.Plugins     = pluginList{}
	_ idempotency.Answers = (*store.DB)(nil)
)

// serveAPI listens, so that a failure to is the agent's failure to start, and returns
// what serves until its context ends.
func (a *Agent) serveAPI() (func(ctx context.Context) error, error) {
	c := a.options.Config.API
	if !c.Enabled {
		return func(context.Context) error { return nil }, nil
	}
	server := &api.Server{
		Desired:  a.Store,
		Observed: &observed{a},
		Plugins:  pluginList{a},
		Taps:     &a.taps,
		Answers:  a.Store,
		Show:     a.show,
		Metrics:  a.Metrics(),
		Log:      a.options.Log,
		Version:  a.options.Version,
		Hosts:    hosts(c),
		Reload:   a.reload,
		Plan:     a.Plan,
	}
	if err := a.secure(server, c); err != nil {
		return nil, &settingError{err}
	}
	l, err := net.Listen("tcp", c.HTTP.Address)
	if err != nil {
		return nil, &environmentError{fmt.Errorf("cannot listen on api.http.address: %w", err)}
	}
	a.address, a.server = l.Addr().String(), server
	a.options.Log.Info("API ready", "component", "api", "address", a.address)
	return func(ctx context.Context) error { return server.Serve(ctx, l) }, nil
}

// secure sets who may do what, and refuses settings that do not say.
func (a *Agent) secure(server *api.Server, c config.API) (err error) {
	if server.ReadToken, err = a.token("api.auth.read-token-file", c.Auth.ReadTokenFile); err != nil {
		return err
	}
	if server.AdminToken, err = a.token("api.auth.admin-token-file", c.Auth.AdminTokenFile); err != nil {
		return err
	}
	if server.ReadToken != "" && server.ReadToken == server.AdminToken {
		a.options.Log.Warn("the read token is the admin token, so that who reads may do everything", "component", "api")
	}
	if server.TLS, err = encryption(c.TLS); err != nil {
		return err
	}
	return checkExposure(c, server)
}

// Ready returns why the agent is not ready.
func (a *Agent) Ready(ctx context.Context) error {
	if a.Files.Status().At.IsZero() {
		return resource.ErrStarting
	}
	if err := a.Store.InPlace(); err != nil {
		return err
	}
	if err := a.Loop.Unsaved(); err != nil {
		return err
	}
	_, err := a.Store.Declarations(ctx)
	return err
}

// reload reads the pipeline files. That all are gone and nothing came of it is an error.
func (a *Agent) reload(ctx context.Context, prune bool) error {
	if err := a.Files.Reload(ctx, prune); err != nil {
		return err
	}
	if d := a.Files.Status().Directory; d.State == spec.DirectoryHeld {
		return errors.New(d.Message)
	}
	return nil
}

// environmentError is an error that the machine is to blame for.
type environmentError struct{ error }

// Environment reports that nothing the user wrote is wrong.
func (*environmentError) Environment() bool { return true }

// Unwrap returns the cause.
func (e *environmentError) Unwrap() error { return e.error }

// settingError is an error that the settings are to blame for, unless its cause tells
// that the machine is.
type settingError struct{ error }

// Invalid reports that what the user wrote is wrong.
func (*settingError) Invalid() bool { return true }

// Unwrap returns the cause.
func (e *settingError) Unwrap() error { return e.error }

// checkExposure refuses an address that others can reach when nothing keeps them out.
func checkExposure(c config.API, s *api.Server) error {
	host, _, err := net.SplitHostPort(c.HTTP.Address)
	if err != nil {
		return fmt.Errorf("cannot listen on api.http.address %q: want host:port", c.HTTP.Address)
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	authenticated := s.AdminToken != "" || s.ReadToken != "" || s.TLS != nil && s.TLS.ClientCAs != nil
	if local || authenticated || c.AllowUnauthenticated {
		return nil
	}
	return fmt.Errorf("api.http.address %s can be reached by others and nothing keeps them out: set api.auth.admin-token-file, or api.tls.client-ca-file, "+
		"or listen on 127.0.0.1; api.allow-unauthenticated: true lets everybody in", c.HTTP.Address)
}

// hosts returns the names under which the API may be asked.
func hosts(c config.API) []string {
	all := strings.FieldsFunc(c.AllowedHosts, func(r rune) bool { return r == ',' || r == ' ' })
	if host, _, err := net.SplitHostPort(c.HTTP.Address); err == nil && host != "" {
		all = append(all, host)
	}
	return all
}

// token reads the bearer token in the file that the setting names. A bare name is that
// of a credential, if systemd handed over any.
func (a *Agent) token(setting, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	read := func(path string) (string, error) { b, err := os.ReadFile(path); return string(b), err }
	if !strings.ContainsRune(file, os.PathSeparator) && os.Getenv("CREDENTIALS_DIRECTORY") != "" {
		read = credential
	} else if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o007 != 0 {
		a.options.Log.Warn("everybody on this machine can read a token: chmod o= the file", "component", "api", "setting", setting, "file", file, "mode", info.Mode().Perm().String())
	}
	text, err := read(file)
	if text = strings.TrimSpace(text); err == nil && text == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the token in %s: %w", setting, err)
	}
	return text, nil
}

// encryption returns the TLS settings, nil for none.
func encryption(c config.TLS) (*tls.Config, error) {
	if c == (config.TLS{}) {
		return nil, nil
	}
	if c.CertFile == "" || c.KeyFile == "" {
		return nil, errors.New("cannot encrypt the API: api.tls.cert-file and api.tls.key-file go together")
	}
	certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("cannot load the certificate in api.tls.cert-file: %w", err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if c.ClientCAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read api.tls.client-ca-file: %w", err)
	}
	t.ClientCAs, t.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cannot read api.tls.client-ca-file: there is no PEM certificate in %s", c.ClientCAFile)
	}
	return t, nil
}

// observed is what runs as the API sees it.
type observed struct{ *Agent }

// State returns the state of a pipeline.
func (o *observed) State(id string) (spec.State, bool) { return o.Loop.State(id) }

// Changed returns a channel that is closed at the next change.
func (o *observed) Changed() <-chan struct{} { return o.changes.next() }

// Position returns where a source got.
func (o *observed) Position(ctx context.Context, connectorID string) (record.Position, error) {
	c, err := o.Store.Checkpoint(ctx, connectorID)
	if c == nil {
		return nil, err
	}
	return c.Position, err
}

// Restart has a pipeline restarted.
func (o *observed) Restart(ctx context.Context, id string) error { return o.Loop.Restart(ctx, id) }

// CutOff has a pipeline that is to stop end at once.
func (o *observed) CutOff(ctx context.Context, id string) error { return o.Loop.CutOff(ctx, id) }

// CleanUp deletes a connector that was removed.
func (o *observed) CleanUp(ctx context.Context, connectorID string) error {
	return o.Loop.CleanUp(ctx, connectorID)
}

// PluginChanges returns what became of executables that connectors run from.
func (o *observed) PluginChanges() []spec.PluginChange {
	var all []spec.PluginChange
	for _, c := range o.Executables.Changes() {
		if id, ok := pipelineOf(c.ConnectorID); ok {
			all = append(all, spec.PluginChange{Pipeline: id, Reason: c.Reason, Message: c.Message})
		}
	}
	return all
}

// Directory returns how it stands with the directory of the pipeline files.
func (o *observed) Directory() spec.Directory { return o.Files.Status().Directory }

// changes tells of changes to any number of listeners.
type changes struct {
	mu sync.Mutex
	ch chan struct{} // closed at the next change; nil while nobody listens
}

func (c *changes) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
	}
	return c.ch
}

func (c *changes) notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != nil {
		close(c.ch)
		c.ch = nil
	}
}

// pluginList is the plugin host as the API sees it.
type pluginList struct{ agent *Agent }

// Plugins describes all plugins, by name.
func (l pluginList) Plugins() []rest.Plugin {
	specs := l.agent.Plugins.Specifications()
	all := make([]rest.Plugin, len(specs))
	for i, s := range specs {
		all[i] = rest.Plugin{Name: s.Name.String(), Summary: s.Summary, Description: s.Description, Version: s.Name.Version,
			Author: s.Author, SourceParams: restParameters(s.Source), DestinationParams: restParameters(s.Destination)}
	}
	return all
}

// Check has a fresh instance accept the settings.
func (l pluginList) Check(ctx context.Context, typ spec.ConnectorType, plugin string, settings map[string]string) error {
	_, params, err := parameters(l.agent.Plugins, plugin, typ)
	if err != nil { // it may be so new that nobody looked
		look, cancel := context.WithTimeout(ctx, specifyTimeout)
		l.agent.Executables.Rescan(look)
		cancel()
		_, params, err = parameters(l.agent.Plugins, plugin, typ)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", desired.ErrPluginNotFound, err)
	}
	var found secrets
	if settings, err = l.resolved(ctx, settings, &found); err != nil {
		return err
	}
	// A plugin may take settings that it does not describe; what it refuses is wrong, and
	// the description only says where.
	c, err := l.agent.Runner.dispense(ctx, &spec.ConnectorState{ID: "validate-" + string(typ) + "-config", Type: typ, Plugin: plugin}, &found)
	if err != nil {
		return err
	}
	err = c.Configure(ctx, settings)
	if terr := c.Teardown(ctx); err == nil {
		err = terr
	}
	if err == nil {
		return nil
	}
	var wrong []error
	for _, s := range params.Check(settings) {
		wrong = append(wrong, &desired.SettingError{Setting: s.Setting, Message: found.cover(s.Message)})
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	return found.coverIn(err)
}

// resolved returns settings with their references resolved, or a SettingError for each
// of which one cannot be. What they led to is added to found.
func (l pluginList) resolved(ctx context.Context, settings map[string]string, found *secrets) (map[string]string, error) {
	resolved, problems := l.agent.Runner.resolve(ctx, settings, found)
	var wrong []error
	for _, problem := range problems {
		path := strings.TrimPrefix(problem.Path, "/connectors/0/settings/")
		name := pointer.Unescape(path)
		message := strings.TrimPrefix(problem.Message, fmt.Sprintf("setting %q of connector %q: ", name, ""))
		wrong = append(wrong, &desired.SettingError{Setting: name, Message: message})
	}
	return resolved, errors.Join(wrong...)
}

var parameterTypes = map[sdk.ParameterType]string{
	sdk.TypeString: "TYPE_STRING", sdk.TypeInt: "TYPE_INT", sdk.TypeFloat: "TYPE_FLOAT",
	sdk.TypeBool: "TYPE_BOOL", sdk.TypeFile: "TYPE_FILE", sdk.TypeDuration: "TYPE_DURATION",
}

var validationTypes = map[sdk.ValidationType]string{
	sdk.ValidationRequired: "TYPE_REQUIRED", sdk.ValidationGreaterThan: "TYPE_GREATER_THAN", sdk.ValidationLessThan: "TYPE_LESS_THAN",
	sdk.ValidationInclusion: "TYPE_INCLUSION", sdk.ValidationExclusion: "TYPE_EXCLUSION", sdk.ValidationRegex: "TYPE_REGEX",
}

func restParameters(params sdk.Parameters) map[string]rest.Parameter {
	all := make(map[string]rest.Parameter, len(params))
	for name, p := range params {
		rules := make([]rest.ParameterRule, len(p.Validations))
		for i, v := range p.Validations {
			rules[i] = rest.ParameterRule{Type: cmp.Or(validationTypes[v.Type], "TYPE_UNSPECIFIED"), Value: v.Value}
		}
		all[name] = rest.Parameter{Default: p.Default, Description: p.Description, Type: cmp.Or(parameterTypes[p.Type], "TYPE_UNSPECIFIED"), Validations: rules}
	}
	return all
}

// show makes structured what the schemas of a record say is structured. A record that
// does not fit them is shown as it is.
func (a *Agent) show(r *record.Record) {
	for _, part := range []schema.Parts{{Key: true}, {Payload: true}} {
		_ = a.schemas.DecodeRecord(context.Background(), r, part)
	}
}
