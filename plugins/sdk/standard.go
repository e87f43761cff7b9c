package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync/atomic"
	"time"
)

// Standard returns a connector whose instances also understand the sdk.* settings and implement them: batches, rate
// limits, record formats, schemas. Their Configure trims, defaults and checks all settings first, and passes the
// connector its own settings. Hosts create instances of the standard connector. Standard returns a standard connector
// unchanged.
//
// It panics if c changes the default of a parameter that does not exist.
func Standard(c Connector) Connector {
	if c.standard {
		return c
	}
	c.standard = true
	if newSource := c.NewSource; newSource != nil {
		standard := Described(sourceOptions{}, descriptions)
		params := &standardParameters{standard: withDefaults(standard, c.SourceDefaults)}
		c.NewSource = func() Source { return &standardSource{Source: newSource(), params: params} }
	}
	if newDestination := c.NewDestination; newDestination != nil {
		standard := Described(destinationOptions{}, descriptions)
		params := &standardParameters{standard: withDefaults(standard, c.DestinationDefaults)}
		c.NewDestination = func() Destination {
			return &standardDestination{Destination: newDestination(), params: params}
		}
	}
	return c
}

// prefix is the prefix of all parameters that are not the connector's own.
const prefix = "sdk."

func withDefaults(p Parameters, defaults map[string]string) Parameters {
	for name, value := range defaults {
		param, ok := p[name]
		if !ok {
			panic(fmt.Sprintf("sdk: cannot change the default of %q: there is no such parameter", name))
		}
		param.Default = value
		p[name] = param
	}
	return p
}

// standardParameters holds the parameters of all instances of a connector.
type standardParameters struct {
	standard Parameters // the sdk.* parameters
	known    atomic.Pointer[knownParameters]
}

// knownParameters must not be modified.
type knownParameters struct{ own, all Parameters }

// parametersOf returns the parameters of instance. It queries only the first instance, because all have the same
// parameters.
func (p *standardParameters) parametersOf(instance interface{ Parameters() Parameters }) *knownParameters {
	if k := p.known.Load(); k != nil {
		return k
	}
	k := &knownParameters{own: instance.Parameters(), all: maps.Clone(p.standard)}
	maps.Copy(k.all, k.own)
	p.known.Store(k)
	return k
}

// split checks the settings, fills the struct that options points to, and returns the
// connector's own settings.
func split(all Parameters, settings map[string]string, options any) (map[string]string, error) {
	settings = all.ApplyDefaults(settings)
	var errs []error
	for _, err := range all.check(settings) {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if err := fill(reflect.ValueOf(options).Elem(), settings, nil); err != nil {
		return nil, err
	}
	maps.DeleteFunc(settings, func(name, _ string) bool { return isStandard(name) })
	return settings, nil
}

// checkDelay refuses a negative sdk.batch.delay. No rule can do it, because other hosts know rules for numbers but not
// for durations.
func checkDelay(delay time.Duration) error {
	if delay < 0 {
		return SettingError{"sdk.batch.delay", fmt.Sprintf("must not be negative, like %v", delay)}
	}
	return nil
}

func isStandard(name string) bool { return strings.HasPrefix(name, prefix) }

// ownSettings returns the settings that the connector's lifecycle methods receive.
func ownSettings(own Parameters, settings map[string]string) map[string]string {
	out := own.ApplyDefaults(settings)
	maps.DeleteFunc(out, func(name, _ string) bool { return isStandard(name) })
	return out
}

// lifecycle passes the events of a standard connector to the inner connector.
type lifecycle struct {
	Lifecycle
	params Parameters
}

func (l lifecycle) created(ctx context.Context, settings map[string]string) error {
	return l.LifecycleOnCreated(ctx, ownSettings(l.params, settings))
}

// updated passes on nothing if the connector's own settings are unchanged.
func (l lifecycle) updated(ctx context.Context, before, after map[string]string) error {
	before, after = ownSettings(l.params, before), ownSettings(l.params, after)
	if maps.Equal(before, after) {
		return nil
	}
	return l.LifecycleOnUpdated(ctx, before, after)
}

func (l lifecycle) deleted(ctx context.Context, settings map[string]string) error {
	return l.LifecycleOnDeleted(ctx, ownSettings(l.params, settings))
}
