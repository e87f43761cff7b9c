package template

import (
	"text/template"
	"text/template/parse"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// eachNode calls do for n and every node inside it.
func eachNode(n parse.Node, do func(parse.Node)) {
	if isNil(n) {
		return
	}
	do(n)
	switch n := n.(type) {
	case *parse.ListNode:
		for _, e := range n.Nodes {
			eachNode(e, do)
		}
	case *parse.ActionNode:
		eachNode(n.Pipe, do)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			eachNode(c, do)
		}
	case *parse.CommandNode:
		for _, a := range n.Args {
			eachNode(a, do)
		}
	case *parse.ChainNode:
		eachNode(n.Node, do)
	case *parse.TemplateNode:
		eachNode(n.Pipe, do)
	case *parse.IfNode:
		eachBranch(&n.BranchNode, do)
	case *parse.WithNode:
		eachBranch(&n.BranchNode, do)
	case *parse.RangeNode:
		eachBranch(&n.BranchNode, do)
	}
}

func eachBranch(b *parse.BranchNode, do func(parse.Node)) {
	eachNode(b.Pipe, do)
	eachNode(b.List, do)
	eachNode(b.ElseList, do)
}

func isNil(n parse.Node) bool {
	switch n := n.(type) {
	case nil:
		return true
	case *parse.ListNode:
		return n == nil
	case *parse.PipeNode:
		return n == nil
	}
	return false
}

// usedFunctions returns the functions in allFunctions that the template text calls. It returns an error for a text that
// is no template, and for one that fails for every record.
func usedFunctions(text string, strict, path bool) (template.FuncMap, error) {
	tree := parse.New("")
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		return nil, syntaxFault(err)
	}
	if err := check(trees, strict, path); err != nil {
		return nil, err
	}
	all, used := allFunctions(), template.FuncMap{}
	for _, t := range trees {
		eachNode(t.Root, func(n parse.Node) {
			if id, ok := n.(*parse.IdentifierNode); ok && all[id.Ident] != nil {
				used[id.Ident] = all[id.Ident]
			}
		})
	}
	return used, nil
}

// partsOf returns the parts of a record that t may read. A template that uses the record as a whole may read all parts.
func partsOf(t *template.Template) schema.Parts {
	all := schema.Parts{Key: true, Payload: true}
	var parts schema.Parts
	for _, each := range t.Templates() {
		if each.Tree == nil {
			continue
		}
		eachNode(each.Root, func(n parse.Node) {
			name := ""
			switch n := n.(type) {
			case *parse.DotNode:
				parts = all
			case *parse.FieldNode:
				name = n.Ident[0]
			case *parse.VariableNode:
				if name = n.Ident[0]; len(n.Ident) > 1 {
					name = n.Ident[1]
				}
			}
			switch name {
			case "Key":
				parts.Key = true
			case "Payload":
				parts.Payload = true
			case "$", "Map", "Bytes", "Clone":
				parts = all
			}
		})
	}
	return parts
}
