package imports_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a reader can keep in mind. Functions have at most 60 lines, which the linters check.
const (
	maxLines   = 2500 // of a package
	maxMethods = 30   // of a type
)

// large are the places that may have more: the commands, each of which is small, and a client with a method for each request.
var large = map[string]bool{"cmd/conduit": true, "api/client.Client": true}

// TestSizes bounds packages and types, but for tests and what is generated.
func TestSizes(t *testing.T) {
	const root = "../../.."
	lines, methods := map[string]int{}, map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		lines[pkg] += bytes.Count(text, []byte("\n"))
		for _, decl := range f.Decls {
			if m, ok := decl.(*ast.FuncDecl); ok && m.Recv != nil {
				of := pkg + "." + receiver(m.Recv.List[0].Type)
				if methods[of] == nil {
					methods[of] = map[string]bool{}
				}
				methods[of][m.Name.Name] = true // once, should each system have its own
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 100 || len(methods) < 500 {
		t.Fatalf("only %d packages and %d types with methods were found", len(lines), len(methods))
	}
	for pkg, n := range lines {
		if n > maxLines && !large[pkg] {
			t.Errorf("%s has %d lines, more than %d: split it", pkg, n, maxLines)
		}
	}
	for of, names := range methods {
		if len(names) > maxMethods && !large[of] {
			t.Errorf("%s has %d methods, more than %d: split it", of, len(names), maxMethods)
		}
	}
}

// receiver returns the name of the type that a method is of.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	}
	return ""
}
