package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"reflect"
	"strconv"
	"strings"
)

// describe returns the generated file of the package.
func (p *source) describe(constant string) ([]byte, error) {
	var b strings.Builder
	name := ""
	for _, f := range p.files {
		parsed, err := f.parse()
		if err != nil {
			return nil, err
		}
		name = parsed.Name.Name
		for _, decl := range parsed.Decls {
			if types, ok := decl.(*ast.GenDecl); ok {
				describeTypes(&b, name, types)
			}
		}
	}
	text, err := format.Source(fmt.Appendf([]byte(header), "\npackage %s\n\n"+
		"// %s has the descriptions of fields, as texts.Description finds them.\n"+
		"const %[2]s = \"\"%s\n", name, constant, b.String()))
	if err != nil {
		return nil, fmt.Errorf("cannot format the descriptions of %s: %w", p.path, err)
	}
	return text, nil
}

// describeTypes adds the descriptions of the structs among the types of a declaration in a package.
func describeTypes(b *strings.Builder, name string, types *ast.GenDecl) {
	for _, spec := range types.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			return
		}
		all := fields("", t.Type)
		if len(all) == 0 || tagged(t.Type) {
			continue
		}
		line(b, "\n"+name+"."+t.Name.Name)
		for _, f := range all {
			line(b, f.name+": "+f.text)
		}
	}
}

// field is a field with a description.
type field struct{ name, text string }

// fields returns the fields with a description in a type, if it is a struct, and in the structs without a name in it.
func fields(prefix string, t ast.Expr) (all []field) {
	s, ok := elem(t).(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range s.Fields.List {
		name, _, _ := strings.Cut(tagOf(f).Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if text := first(f.Doc); text != "" {
			all = append(all, field{prefix + name, text})
		}
		all = append(all, fields(prefix+name+".", f.Type)...)
	}
	return all
}

// elem returns the type of the values in a pointer, a slice or a map, and other types unchanged.
func elem(t ast.Expr) ast.Expr {
	switch t := t.(type) {
	case *ast.StarExpr:
		return elem(t.X)
	case *ast.ArrayType:
		return elem(t.Elt)
	case *ast.MapType:
		return elem(t.Value)
	}
	return t
}

// tagged reports whether a field has its description in a tag.
func tagged(t ast.Node) (found bool) {
	ast.Inspect(t, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok {
			found = found || tagOf(f).Get("desc") != ""
		}
		return true
	})
	return found
}

func tagOf(f *ast.Field) reflect.StructTag {
	if f.Tag == nil {
		return ""
	}
	tag, _ := strconv.Unquote(f.Tag.Value) // valid, as the file was parsed
	return reflect.StructTag(tag)
}

// first returns the first paragraph of a comment on one line.
func first(comment *ast.CommentGroup) string {
	text, _, _ := strings.Cut(comment.Text(), "\n\n")
	return strings.Join(strings.Fields(text), " ")
}

// columns is the width of the code of a piece of a line.
const columns = 100

// line adds a line of the constant: code of a string in pieces that end between words.
func line(b *strings.Builder, text string) {
	text += "\n"
	for len(text) > 0 {
		end := len(text)
		if end > columns {
			if end = strings.LastIndexByte(text[:columns], ' ') + 1; end == 0 {
				end = len(text)
			}
		}
		b.WriteString(" +\n\t" + strconv.Quote(text[:end]))
		text = text[end:]
	}
}
