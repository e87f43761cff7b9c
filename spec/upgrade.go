package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Upgrade returns the pipeline file data as a file of version 2.2, with its comments. In versions 1.x pipelines,
// connectors and processors are maps from ids, and the plugin of a processor is called type. A map has no order:
// processors get the order of the file. Parts in a later version stay unchanged.
func Upgrade(data []byte) ([]byte, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the file: %w", err)
		}
		if len(doc.Content) == 1 {
			if err := upgradeDocument(doc.Content[0]); err != nil {
				return nil, err
			}
		}
		if err := encoder.Encode(&doc); err != nil {
			return nil, fmt.Errorf("cannot write the file: %w", err)
		}
	}
	err := encoder.Close()
	return out.Bytes(), err
}

func upgradeDocument(root *yaml.Node) error {
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: a pipeline file starts with version and pipelines", root.Line)
	}
	version := fieldOf(root, "version")
	if version == nil {
		version = &yaml.Node{Kind: yaml.ScalarNode}
		root.Content = append([]*yaml.Node{nameNode("version"), version}, root.Content...)
	}
	version.Tag, version.Value, version.Style = "!!str", "2.2", yaml.DoubleQuotedStyle
	return upgradeList(root, "pipelines", func(pipeline *yaml.Node) error {
		connectors := upgradeList(pipeline, "connectors", upgradeProcessors)
		return errors.Join(connectors, upgradeProcessors(pipeline))
	})
}

// upgradeProcessors rewrites the processors of a pipeline or connector.
func upgradeProcessors(owner *yaml.Node) error {
	return upgradeList(owner, "processors", func(p *yaml.Node) error {
		for i := 0; i+1 < len(p.Content); i += 2 {
			if p.Content[i].Value == "type" && fieldOf(p, "plugin") == nil {
				p.Content[i].Value = "plugin"
			}
		}
		return nil
	})
}

// upgradeList converts the field called key of the mapping in to a list, if it is a map from ids, and calls each with
// every item.
func upgradeList(in *yaml.Node, key string, each func(*yaml.Node) error) error {
	items := fieldOf(in, key)
	if items == nil || items.Kind == yaml.ScalarNode {
		return nil
	}
	if items.Kind == yaml.AliasNode {
		return fmt.Errorf("line %d: %s is an alias, which is not rewritten: write it out", items.Line, key)
	}
	if items.Kind == yaml.MappingNode {
		if err := listFromMap(items); err != nil {
			return err
		}
	}
	for _, item := range items.Content {
		if item.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: an item of %s is not a map", item.Line, key)
		}
		if err := each(item); err != nil {
			return err
		}
	}
	return nil
}

// listFromMap converts a map of items by id to a list of items with the id as their first field.
func listFromMap(n *yaml.Node) error {
	var items []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		id, item := n.Content[i], n.Content[i+1]
		if item.Kind == yaml.AliasNode {
			return fmt.Errorf("line %d: %s is an alias, which is not rewritten: write it out", item.Line, id.Value)
		}
		if item.Kind == yaml.ScalarNode && item.ShortTag() == "!!null" {
			item = &yaml.Node{Kind: yaml.MappingNode, Line: item.Line}
		}
		if item.Kind != yaml.MappingNode || strings.HasPrefix(id.Value, "<<") {
			return fmt.Errorf("line %d: %s is not a map", id.Line, id.Value)
		}
		item.Style = 0
		text := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: id.Value, LineComment: id.LineComment}
		item.HeadComment = id.HeadComment
		item.Content = append([]*yaml.Node{nameNode("id"), text}, item.Content...)
		items = append(items, item)
	}
	n.Kind, n.Tag, n.Content, n.Style = yaml.SequenceNode, "!!seq", items, 0
	return nil
}

func nameNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// fieldOf returns the value of the field called key, nil if the mapping has none.
func fieldOf(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}
