package cli

import "errors"

// Confirm returns nil when yes is set or the person at the terminal agrees.
func (p *Program) Confirm(yes bool, question string) error {
	switch {
	case yes:
		return nil
	case p.Ask == nil:
		return Invalidf("nothing was done: confirm, or add --yes")
	case !p.Ask(question):
		return errors.New("nothing was done")
	}
	return nil
}
