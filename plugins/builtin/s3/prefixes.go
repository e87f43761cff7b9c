package s3

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// maxPrefixBytes bounds the size of the prefixes, because each position has them.
const maxPrefixBytes = 16 << 10

func (s *sourceSettings) check(ctx context.Context) error {
	wrong := func(message string) error { return sdk.SettingError{Setting: "prefixes", Message: message} }
	all := s.all()
	for i, prefix := range all {
		switch {
		case strings.Contains(prefix, "*"):
			return sdk.SettingError{Setting: s.named(), Message: fmt.Sprintf("has %q with *, but a prefix is plain "+
				"text, not a pattern: remove the *", prefix)}
		case len(s.Prefixes) == 0:
		case s.Prefix != "":
			return wrong("cannot be set with prefix")
		case prefix == "":
			return wrong("has an empty prefix, which matches all objects: to read all, remove prefixes")
		case i > 0 && strings.HasPrefix(prefix, all[i-1]):
			return wrong(fmt.Sprintf("has %q, which begins with %q: objects would be read twice", prefix, all[i-1]))
		case len(strings.Join(all, "")) > maxPrefixBytes:
			return wrong(fmt.Sprintf("must not be longer than %d bytes", maxPrefixBytes))
		}
	}
	return s.bucketSettings.check(ctx)
}

// named returns the name of the setting that holds the prefixes.
func (s *sourceSettings) named() string {
	if len(s.Prefixes) == 0 {
		return "prefix"
	}
	return "prefixes"
}

// all returns the prefixes in the order of the keys below them.
func (s *sourceSettings) all() []string {
	if len(s.Prefixes) == 0 {
		return []string{s.Prefix}
	}
	return slices.Sorted(slices.Values(s.Prefixes))
}

// list lists all objects below the prefixes.
func (s *Source) list(ctx context.Context, prefixes []string, add func(object)) error {
	for _, prefix := range prefixes {
		if err := s.bucket.list(ctx, prefix, s.versions, add); err != nil {
			return err
		}
	}
	return nil
}

// unread returns the prefixes that p does not cover.
func (s *Source) unread(p *position) []string {
	if p.Prefixes == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.prefixes), func(prefix string) bool { return below(prefix, p.Prefixes) })
}

// extend starts a snapshot of the prefixes that p does not cover, or does not cover yet. The snapshot has the objects
// older than the window. The window knows none of their objects, so polling finds the newer ones.
func (s *Source) extend(p *position) {
	unread := s.unread(p)
	if len(unread) > 0 {
		s.after = ""
	}
	if p.Added == nil && len(unread) == 0 {
		return
	}
	s.snapshot, s.began = nil, nil
	if added := slices.DeleteFunc(slices.Clone(s.prefixes), func(prefix string) bool {
		return !below(prefix, unread) && !below(prefix, p.Added)
	}); len(added) > 0 {
		since := s.window.since
		s.added, s.snapshot, s.began = added, &since, &since
	}
}

// known returns the prefixes whose read objects the position knows.
func (s *Source) known() []string {
	return slices.DeleteFunc(slices.Clone(s.prefixes), func(prefix string) bool { return below(prefix, s.added) })
}

// listed returns the prefixes of the snapshot.
func (s *Source) listed() []string {
	if s.added != nil {
		return s.added
	}
	return s.prefixes
}

// below reports whether the others include all objects of a prefix.
func below(prefix string, others []string) bool {
	return slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(prefix, other) })
}

// behind returns the prefixes that may have objects after a key.
func behind(key string, prefixes []string) []string {
	return slices.DeleteFunc(slices.Clone(prefixes), func(prefix string) bool {
		return prefix < key && !strings.HasPrefix(key, prefix)
	})
}
