package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// declaredChain holds the processors of a pipeline or connector.
type declaredChain struct{ declared, resolved []spec.Processor }

// chains returns the processors of v by the qualified id of the declaring pipeline or connector. order lists the ids of
// the destinations by their number.
func (v *version) chains(order []string) map[string]declaredChain {
	all := map[string]declaredChain{}
	add := func(id string, declared, resolved []spec.Processor) {
		if len(declared) > 0 {
			all[id] = declaredChain{declared, resolved}
		}
	}
	add(v.declared.ID, v.declared.Chain(order), v.resolved.Chain(order))
	for i, c := range v.declared.Connectors {
		add(v.declared.QualifiedID(c.ID), c.Processors, v.resolved.Connectors[i].Processors)
	}
	return all
}

// changedChains returns the chains that differ between the versions. A chain that b no longer has is in the result
// without processors.
func changedChains(a, b *version, order []string) map[string]declaredChain {
	before, changed := a.chains(order), b.chains(order)
	for id, chain := range before {
		if now, ok := changed[id]; !ok {
			changed[id] = declaredChain{}
		} else if reflect.DeepEqual(chain, now) {
			delete(changed, id)
		}
	}
	return changed
}

// openChains starts processors that replace those of r, if r is not nil. After an error none is left running.
func (p *Pipeline) openChains(
	ctx context.Context, declared map[string]declaredChain, r *run,
) (map[string]connector.Chain, error) {
	if len(declared) == 0 {
		return nil, nil
	}
	chains := make(map[string]connector.Chain, len(declared))
	for _, id := range slices.Sorted(maps.Keys(declared)) {
		chains[id] = nil
		if len(declared[id].declared) == 0 {
			continue
		}
		chain, err := p.Plugins.Processors(ctx, id, declared[id].resolved, r.chain(id))
		if err != nil {
			err = failedInProcessors(id, fmt.Errorf("cannot start the processors of %s: %w", id, err))
			if wrong := (sdk.SettingError{}); errors.As(err, &wrong) {
				err = Permanent(err)
			}
			return nil, errors.Join(err, teardownChains(context.WithoutCancel(ctx), chains))
		}
		chains[id] = chain
	}
	return chains, nil
}

func teardownChains(ctx context.Context, chains map[string]connector.Chain) error {
	var errs []error
	for id, chain := range chains {
		if chain == nil {
			continue
		}
		if err := chain.Teardown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("cannot tear down the processors of %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// endChains ends the processors after all records have stopped moving.
func (r *run) endChains(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTeardown)
	defer cancel()
	var errs []error
	for _, st := range r.stages() {
		errs = append(errs, st.Teardown(ctx))
	}
	return errors.Join(errs...)
}

// upstream returns the stages before the queues of the destinations.
func (r *run) upstream() []stage {
	all := []stage{r.stage}
	for _, s := range r.sources {
		all = append(all, s.stage)
	}
	return all
}

// chain returns the processors that id declares, nil for none.
func (r *run) chain(id string) connector.Chain {
	if r != nil {
		for _, st := range r.stages() {
			if st.ID == id {
				return st.Chain()
			}
		}
	}
	return nil
}

// stages returns all stages.
func (r *run) stages() []stage {
	all := r.upstream()
	for _, d := range r.dests {
		all = append(all, d.stage)
	}
	return all
}

// startTending starts the goroutine that tends the processors of a stage before the queues.
func (r *run) startTending(st stage) {
	if !st.Tend() {
		return
	}
	var source *sourceRun
	for _, s := range r.sources {
		if s.stage == st {
			source = s
		}
	}
	r.start("tending the processors of "+st.ID, func(ctx context.Context) error { return r.tend(ctx, st, source) })
}
