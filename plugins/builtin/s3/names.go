package s3

import (
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/parquet"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// named returns the setting that names objects, prefix or key, and its text.
func (s *destinationSettings) named() (setting, text string) {
	if s.Key != "" {
		return "key", s.Key
	}
	return "prefix", s.Prefix
}

func (s *destinationSettings) checkKey() error {
	wrong := func(message string) error { return sdk.SettingError{Setting: "key", Message: message} }
	switch {
	case s.Key == "":
		return nil
	case s.Prefix != "":
		return wrong("cannot be set with prefix: make the prefix the beginning of key")
	case s.compressed() && !strings.HasSuffix(s.Key, packed[s.Compression]):
		return wrong(fmt.Sprintf("must end in %s with compression %s, so that other programs can tell",
			packed[s.Compression], s.Compression))
	case strings.Contains(s.Key, "{{"):
		return nil
	}
	if err := checkName(s.Key); err != nil {
		return wrong("cannot be the key of an object: " + err.Error())
	}
	return nil
}

// keyOf returns the key of the object with a prefix or key, which is the output of the template, and a number.
func (s *destinationSettings) keyOf(name string, number int64) string {
	if s.Key == "" {
		return path.Join(name, fmt.Sprintf("%d.%s", number, s.suffix()))
	}
	ext := extension(s.Key)
	stem := strings.TrimSuffix(name, ext)
	if stem != "" && !strings.HasSuffix(stem, "/") {
		stem += "-"
	}
	return fmt.Sprintf("%s%d%s", stem, number, ext)
}

// extension returns the extension of a key: the text from the first dot of the last element, behind the last action of
// a template, because values of records may have dots.
func extension(key string) string {
	text := key[strings.LastIndex(key, "}}")+1:]
	text = text[strings.LastIndexByte(text, '/')+1:]
	if i := strings.IndexByte(text, '.'); i >= 0 {
		return text[i:]
	}
	return ""
}

// packed are the extensions of compressed objects.
var packed = map[string]string{"gzip": ".gz", "zstd": ".zst"}

func (s *destinationSettings) suffix() string {
	suffix := map[string]string{"json": "json", "parquet": "parquet", "lines": "jsonl"}[s.Format]
	if s.compressed() {
		suffix += packed[s.Compression]
	}
	return suffix
}

// groups groups the first n items by name and table. The error is about the next item.
func (d *Destination) groups(items []item) (groups [][]item, n int, err error) {
	if groups, n, err = d.byName(items); !d.settings.columns() {
		return groups, n, err
	}
	var divided [][]item
	for _, group := range groups {
		byTable := map[*parquet.Table]int{}
		for _, it := range group {
			t := d.tables.lookup(it.name, it.Record)
			g, ok := byTable[t]
			if !ok {
				g = len(divided)
				byTable[t], divided = g, append(divided, nil)
			}
			it.table = t
			divided[g] = append(divided[g], it)
		}
	}
	return divided, n, err
}

// byName groups the first n items by prefix or key. The error is about the name of the next item.
func (d *Destination) byName(items []item) (groups [][]item, n int, err error) {
	if name, constant := d.names.Constant(); constant {
		group := slices.Clone(items)
		for i := range group {
			group[i].name = name
		}
		return [][]item{group}, len(items), nil
	}
	setting, _ := d.settings.named()
	group := map[string]int{}
	var name []byte
	for n = range items {
		if name, err = d.names.Append(&d.timeLimit, name[:0], items[n].Record); err != nil {
			return groups, n, fmt.Errorf("cannot execute the template of %s: %w", setting, err)
		}
		g, ok := group[string(name)]
		if !ok {
			err := checkName(string(name))
			if err == nil {
				err = d.hourly.add(name, d.settings.PerHour, time.Now())
			}
			if err != nil {
				return groups, n, fmt.Errorf("cannot write with %s %.200q: %w", setting, name, err)
			}
			g = len(groups)
			group[string(name)], groups = g, append(groups, nil)
		}
		it := items[n]
		it.name = string(name)
		groups[g] = append(groups[g], it)
	}
	return groups, len(items), nil
}

// longestName leaves room for the number and the extension of the object: keys have at most 1024 bytes.
const longestName = 900

// checkName explains why a prefix or key is invalid for records: all objects are below the text before the template.
func checkName(name string) error {
	if len(name) > longestName {
		return fmt.Errorf("it has %d bytes, more than %d", len(name), longestName)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return errors.New("it is not UTF-8 text, or has a control character")
	}
	for element := range strings.SplitSeq(strings.TrimSuffix(name, "/"), "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("it cannot have %q between slashes", element)
		}
	}
	return nil
}

// hourly bounds the number of different prefixes or keys in an hour.
type hourly struct {
	hour time.Time
	seen map[uint64]struct{} // hashes of the names
}

var errHourly = errors.New("the records of this hour already have as many prefixes or keys as prefixesPerHour " +
	"allows; raise it, or use fewer")

// add counts a prefix or key, unless it is known. It returns an error if there are too many.
func (h *hourly) add(name []byte, most int, now time.Time) error {
	if now = now.Truncate(time.Hour); !now.Equal(h.hour) {
		h.hour, h.seen = now, map[uint64]struct{}{}
	}
	sum := fnv.New64a()
	sum.Write(name)
	if _, ok := h.seen[sum.Sum64()]; !ok && len(h.seen) >= most {
		return errHourly
	}
	h.seen[sum.Sum64()] = struct{}{}
	return nil
}
