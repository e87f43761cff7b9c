package fields

import (
	"context"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// exclude removes fields.
type exclude struct{ references }

type fieldsSettings struct {
	// Comma list of references to the fields.
	Fields string `json:"fields" validate:"required"`
}

// Parameters implements sdk.Processor.
func (e *exclude) Parameters() sdk.Parameters { return sdk.Described(fieldsSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (e *exclude) Configure(_ context.Context, settings map[string]string) error {
	var s fieldsSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	return e.parse("fields", s.Fields)
}

// Process implements sdk.Processor.
func (e *exclude) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return b.EachUntil(ctx, func(r *record.Record) error {
		for _, ref := range e.refs {
			if err := ref.Delete(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// include removes all fields except the listed ones.
type include struct {
	references
	roots [fieldref.After + 1][]*fieldref.Ref // nested references, by root
	keep  map[string]bool                     // metadata keys to keep
	whole map[fieldref.Root]bool              // roots that stay unchanged
}

// Parameters implements sdk.Processor.
func (i *include) Parameters() sdk.Parameters { return sdk.Described(fieldsSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (i *include) Configure(_ context.Context, settings map[string]string) error {
	var s fieldsSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	if err := i.parse("fields", s.Fields); err != nil {
		return err
	}
	i.keep, i.whole = map[string]bool{}, map[fieldref.Root]bool{}
	for _, ref := range i.refs {
		switch {
		case ref.Root() == fieldref.Payload:
			i.whole[fieldref.Before], i.whole[fieldref.After] = true, true
		case !ref.IsNested():
			i.whole[ref.Root()] = true
		default:
			i.roots[ref.Root()] = append(i.roots[ref.Root()], ref)
		}
	}
	i.refs = slices.DeleteFunc(i.refs, func(ref *fieldref.Ref) bool { return ref.IsNested() && i.whole[ref.Root()] })
	return nil
}

// Process implements sdk.Processor.
func (i *include) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return b.EachUntil(ctx, func(r *record.Record) error {
		for _, root := range []fieldref.Root{fieldref.Key, fieldref.Before, fieldref.After} {
			if err := i.reduce(r, root); err != nil {
				return err
			}
		}
		if refs := i.roots[fieldref.Metadata]; len(refs) > 0 && !i.whole[fieldref.Metadata] {
			r.Metadata = slices.DeleteFunc(r.Metadata, func(f record.Field) bool {
				n := slices.IndexFunc(refs, func(ref *fieldref.Ref) bool { return ref.Name() == f.Key })
				if n >= 0 {
					refs[n].Find()
				}
				return n < 0 && !strings.HasPrefix(f.Key, "opencdc.") && !strings.HasPrefix(f.Key, "conduit.")
			})
		}
		return nil
	})
}

// reduce removes from one part of r all fields that are not listed.
func (i *include) reduce(r *record.Record, root fieldref.Root) error {
	refs, part := i.roots[root], fieldref.Of(root)
	if len(refs) == 0 || i.whole[root] {
		return nil
	}
	if v, ok, _ := part.Get(r); !ok {
		return nil
	} else if m, ok := v.(map[string]any); ok && len(m) == 0 {
		return nil
	}
	from := *r
	reduced := record.Record{}
	for _, ref := range refs {
		v, ok, err := ref.Get(&from)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := ref.Set(&reduced, v); err != nil {
			return err
		}
	}
	v, ok, _ := part.Get(&reduced)
	if !ok {
		v = map[string]any{}
	}
	return part.Set(r, v)
}
