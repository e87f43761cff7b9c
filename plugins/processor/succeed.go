package processor

import (
	"reflect"
	"slices"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// predecessor returns the stage of c with this id whose state the processor may take over, or nil if there is none. The
// result does not depend on what c does meanwhile.
func (c *Chain) predecessor(id string, successor sdk.Processor) *stage {
	if _, ok := successor.(sdk.Successor); !ok || c == nil {
		return nil
	}
	i := slices.IndexFunc(c.stages, func(s *stage) bool {
		return s.id == id && len(s.workers) == 1 && reflect.TypeOf(s.workers[0].processor) == reflect.TypeOf(successor)
	})
	if i < 0 {
		return nil
	}
	return c.stages[i]
}

// CanSucceed implements connector.ChainSuccessor.
func (c *Chain) CanSucceed(former connector.Chain) bool {
	f, ok := former.(*Chain)
	return ok && f == c.options.Former && !f.Unfinished() &&
		!slices.ContainsFunc(f.stages, func(s *stage) bool { return !c.keeps(s) })
}

// keeps reports whether everything that the old stage holds is kept.
func (c *Chain) keeps(former *stage) bool {
	for _, s := range c.stages {
		if s.former == former {
			return s.workers[0].processor.(sdk.Successor).CanSucceed(former.workers[0].processor)
		}
	}
	return former.holding == 0 && former.deadline().IsZero()
}

// Succeed implements connector.ChainSuccessor.
func (c *Chain) Succeed(former connector.Chain) {
	c.covering = former.(*Chain).covering
	for _, s := range c.stages {
		if f := s.former; f != nil {
			s.workers[0].processor.(sdk.Successor).Succeed(f.workers[0].processor)
			s.holding, s.former, f.workers = f.holding, nil, nil
		}
	}
	c.options.Former = nil
}
