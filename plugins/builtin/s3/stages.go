package s3

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// If the key of an object depends on its records, two runs may write different keys under the same number, and no
// condition on a key keeps them apart. Then the ledger stages objects: the key of the object that takes the number has
// only the number, and its metadata has the key from the template. The run that wrote it publishes it, which means that
// it writes the object again under the key from the template, and then empties the staged one. A later run publishes
// the staged objects that are not empty. If the former run was killed after it wrote the object, the later one
// overwrites it with the same content.

// keyHeader is the metadata header of staged objects with the key from the template. Published ones do not have it.
const keyHeader = userPrefix + "Conduit-Key"

// keptStages is the number of the last numbers that keep their staged objects. They keep another run from using the
// number as long as it may not know that it is used.
var keptStages int64 = 4096

const stagesDir = "staged/"

// stage returns the key of the staged object with a number.
func (l *ledger) stage(number int64) string {
	return fmt.Sprintf("%s%s%020d", l.dir, stagesDir, number)
}

// stageOf returns the number of a staged object.
func (l *ledger) stageOf(key string) (number int64, ok bool) {
	text, ok := strings.CutPrefix(key, l.dir+stagesDir)
	number, err := strconv.ParseInt(text, 10, 64)
	return number, ok && err == nil
}

// encodeKey encodes a key for a header, which has ASCII characters only.
func encodeKey(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// publish writes the content of the staged object with a number to its key, and empties the staged one, which keeps
// its epoch.
func (l *ledger) publish(ctx context.Context, number int64, epoch, key string, body []byte) error {
	if err := l.bucket.put(ctx, key, body, l.header()); err != nil {
		return err
	}
	empty := l.header()
	empty.Set(epochHeader, epoch)
	return l.bucket.put(ctx, l.stage(number), nil, empty)
}

// publishStaged publishes the staged object with a number, unless it has been published.
func (l *ledger) publishStaged(ctx context.Context, number int64) error {
	if !l.stages {
		return nil
	}
	staged := l.stage(number)
	header, err := l.bucket.head(ctx, staged)
	if code(err) == noSuchKey || err == nil && header.Get(keyHeader) == "" {
		return nil
	}
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil || size > largestPut {
		return fmt.Errorf("cannot publish the staged object %q: it has %q bytes", staged, header.Get("Content-Length"))
	}
	body, header, err := l.bucket.get(ctx, staged, "", size, nil)
	if err != nil || header.Get(keyHeader) == "" { // another run has published it meanwhile
		return err
	}
	key, err := base64.RawURLEncoding.DecodeString(header.Get(keyHeader))
	if err != nil {
		return fmt.Errorf("cannot publish the staged object %q: its key is invalid: %w", staged, err)
	}
	return l.publish(ctx, number, header.Get(epochHeader), string(key), body)
}

// largestPut is the limit of stores for an object that is written with one request.
const largestPut = 5 << 30

// publishLeft publishes what former runs left staged. A run publishes an object before it writes its next entry.
func (l *ledger) publishLeft(ctx context.Context, valid []entry) error {
	last := map[string]int64{}
	for _, e := range valid {
		last[e.epoch] = max(last[e.epoch], e.number)
	}
	for _, e := range valid {
		if e.number == last[e.epoch] {
			if err := l.publishStaged(ctx, e.number); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeStaged removes the staged objects with numbers below a limit.
func (l *ledger) removeStaged(ctx context.Context, below int64) {
	slices.Sort(l.staged)
	old, _ := slices.BinarySearch(l.staged, below)
	left := removed(slices.Clone(l.staged[:old]), func(n int64) error { return l.bucket.remove(ctx, l.stage(n)) })
	l.staged = append(left, l.staged[old:]...)
}
