// Package protobuf decodes and encodes messages of Protocol Buffers by descriptors that are known at run time. Objects
// have the form of the JSON mapping, with exact numbers and bytes in the types of records.
package protobuf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/conduit-agent/conduit/spec/texts"
)

// A Type is a message type with all types that it refers to. It is safe for concurrent use.
type Type struct {
	message protoreflect.MessageDescriptor
	types   types
}

// types are the types of a descriptor set.
type types struct {
	files      *protoregistry.Files
	extensions map[extension]protoreflect.ExtensionDescriptor
	fields     map[protoreflect.FullName][]protoreflect.FieldDescriptor // of messages, by number
}

// extension identifies an extension field.
type extension struct {
	message protoreflect.FullName
	number  protoreflect.FieldNumber
}

// Parse returns the message type with this full name from a FileDescriptorSet, as protoc writes it with
// --include_imports and --descriptor_set_out.
func Parse(set []byte, name string) (*Type, error) {
	var parsed descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &parsed); err != nil || len(parsed.GetFile()) == 0 {
		return nil, fmt.Errorf("it is not a descriptor set: write it with protoc --include_imports --descriptor_set_out")
	}
	files, err := protodesc.NewFiles(&parsed)
	if err != nil {
		return nil, fmt.Errorf("it is not complete: write it with protoc --include_imports: %w", err)
	}
	t := &Type{types: types{files, map[extension]protoreflect.ExtensionDescriptor{},
		map[protoreflect.FullName][]protoreflect.FieldDescriptor{}}}
	var names []string
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		t.types.addExtensions(f.Extensions())
		names = t.types.addMessages(f.Messages(), names)
		return true
	})
	d, _ := files.FindDescriptorByName(protoreflect.FullName(name))
	message, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		hint := ""
		if best := texts.Closest(name, names); best != "" {
			hint = fmt.Sprintf(": did you mean %q?", best)
		}
		return nil, fmt.Errorf("it has no message %q%s", name, hint)
	}
	t.message = message
	return t, nil
}

func (t *types) addExtensions(all protoreflect.ExtensionDescriptors) {
	for i := range all.Len() {
		t.extensions[extension{all.Get(i).ContainingMessage().FullName(), all.Get(i).Number()}] = all.Get(i)
	}
}

func (t *types) addMessages(all protoreflect.MessageDescriptors, names []string) []string {
	for i := range all.Len() {
		m := all.Get(i)
		names = append(names, string(m.FullName()))
		t.addExtensions(m.Extensions())
		fields := make([]protoreflect.FieldDescriptor, m.Fields().Len())
		for j := range fields {
			fields[j] = m.Fields().Get(j)
		}
		slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
		t.fields[m.FullName()] = fields
		names = t.addMessages(m.Messages(), names)
	}
	return names
}

// field returns the field of a message with this number, which may be an extension, or nil.
func (t *types) field(m protoreflect.MessageDescriptor, n protoreflect.FieldNumber) protoreflect.FieldDescriptor {
	if f := m.Fields().ByNumber(n); f != nil {
		return f
	}
	if f, ok := t.extensions[extension{m.FullName(), n}]; ok {
		return f
	}
	return nil
}

// any returns the message type that the URL of a google.protobuf.Any names.
func (t *types) any(url string) (protoreflect.MessageDescriptor, error) {
	name := url[strings.LastIndexByte(url, '/')+1:]
	d, _ := t.files.FindDescriptorByName(protoreflect.FullName(name))
	if m, ok := d.(protoreflect.MessageDescriptor); ok {
		return m, nil
	}
	return nil, fmt.Errorf("the descriptor set has no message %q, which a google.protobuf.Any contains", name)
}

const (
	// maxDepth is how many messages may be in each other. Lists and maps come between them, and records have a depth that
	// every destination can write.
	maxDepth = 400

	// unknownName is the member for the fields that the message type lacks. No field can have this name.
	unknownName = "@unknown"
	typeName    = "@type" // the member of a google.protobuf.Any that names the type
)

var errDepth = fmt.Errorf("more than %d messages are in each other", maxDepth)
