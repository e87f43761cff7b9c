package template

import (
	"fmt"
	"text/template/parse"
	"time"
)

// pathOptions are the options of a template of a path or key.
type pathOptions struct {
	empty string
	zone  *time.Location
}

// ParsePath parses a template of a path or key, in which a missing key is an error, and so is printing nil. An action
// that prints nothing prints empty. The template has the function strftime, which formats the time of the record, or a
// time that is its second argument, in the time zone.
func ParsePath(text, empty string, zone *time.Location) (*Template, error) {
	return newTemplate(text, Exact, &pathOptions{empty, zone})
}

// checkFormats returns an error if the format of a call of strftime is wrong.
func checkFormats(tree *parse.Tree) (err error) {
	eachNode(tree.Root, func(n parse.Node) {
		c, ok := n.(*parse.CommandNode)
		if !ok || len(c.Args) < 2 || err != nil {
			return
		}
		id, isCall := c.Args[0].(*parse.IdentifierNode)
		format, isText := c.Args[1].(*parse.StringNode)
		if isCall && isText && id.Ident == strftimeName {
			if err = checkStrftime(format.Text); err != nil {
				err = faultAt(tree, n, err)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("cannot parse the template: %w", err)
	}
	return nil
}
