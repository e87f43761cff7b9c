package yamldoc

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Limits of a file with expanded aliases. They keep a small file from becoming a large amount of work.
const (
	maxDepth    = 64
	maxExpanded = 4 << 20 // bytes of text
	maxNodes    = 400_000
)

// extent is the size of a node with everything below it, aliases expanded.
type extent struct {
	bytes, nodes, depth int
}

// measurer measures every node once, however often aliases refer to it. Only nodes with an anchor are met again, so it
// remembers only these.
type measurer struct {
	known map[*yaml.Node]extent
	open  map[*yaml.Node]bool // being measured
	fault *yaml.Node          // an alias that contains itself
}

// checkBounds returns the reason why root is too large to read; nodes counts over all documents.
func checkBounds(root *yaml.Node, nodes *int) *Fault {
	m := measurer{known: map[*yaml.Node]extent{}, open: map[*yaml.Node]bool{}}
	e := m.measure(root)
	*nodes = min(*nodes+e.nodes, maxNodes+1)
	at := root
	var why string
	switch {
	case m.fault != nil:
		at, why = m.fault, fmt.Sprintf("the anchor %q contains itself", m.fault.Value)
	case e.depth > maxDepth:
		why = fmt.Sprintf("the file is nested more than %d levels deep", maxDepth)
	case e.bytes > maxExpanded:
		why = fmt.Sprintf("its aliases expand to more than %d bytes", maxExpanded)
	case *nodes > maxNodes:
		why = fmt.Sprintf("the file has more than %d values: split it into several files", maxNodes)
	default:
		return nil
	}
	return &Fault{Mark: mark(at), Message: "cannot read the document: " + why}
}

// measure stops counting at one above each bound, so nothing overflows.
func (m *measurer) measure(n *yaml.Node) extent {
	if e, ok := m.known[n]; ok {
		return e
	}
	if m.open[n] {
		m.fault = n
		return extent{}
	}
	anchored := n.Anchor != ""
	if anchored {
		m.open[n] = true
	}
	e := extent{bytes: len(n.Value), nodes: 1, depth: 1}
	children := n.Content
	if n.Kind == yaml.AliasNode {
		children = []*yaml.Node{n.Alias}
	}
	for _, child := range children {
		c := m.measure(child)
		e.bytes = min(e.bytes+c.bytes, maxExpanded+1)
		e.nodes = min(e.nodes+c.nodes, maxNodes+1)
		e.depth = max(e.depth, min(c.depth+1, maxDepth+1))
	}
	if anchored {
		delete(m.open, n)
		m.known[n] = e
	}
	return e
}
