package s3

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"sort"
	"time"
)

// readSet describes the read objects of a window, for positions. It lists the newest ones. Of the others it has only a
// digest, which shows after a restart whether they are still the same.
type readSet struct {
	Newest objectList `json:"newest,omitempty"` // at most maxNewest
	Others digest     `json:"others,omitzero"`
	// Full is the time of the newest one of Others, in seconds: all later objects are in Newest.
	Full int64 `json:"full,omitempty"`
}

// maxNewest bounds the list: an object takes about 13 characters of each position.
var maxNewest = 512

// readObject is a read object: its hash and its time in seconds.
type readObject struct {
	hash   uint64
	second int64
}

// digest is the number of hashes and their exclusive or. The hashes must be evenly distributed.
type digest struct {
	Count int    `json:"count"`
	XOR   uint64 `json:"xor"`
}

func (d *digest) change(hash uint64, by int) { d.Count, d.XOR = d.Count+by, d.XOR^hash }

func secondOf(nanoseconds int64) int64 { return time.Unix(0, nanoseconds).Unix() }

// add adds an object that is not in the set.
func (s *readSet) add(hash uint64, modified int64) {
	o := readObject{hash, secondOf(modified)}
	if s.mayBeOther(o.second) {
		s.Others.change(hash, 1)
		return
	}
	s.Newest = slices.Insert(s.Newest, s.Newest.after(o.second), o)
	if len(s.Newest) > maxNewest {
		s.Others.change(s.Newest[0].hash, 1)
		s.Full = s.Newest[0].second
		s.Newest = slices.Delete(s.Newest, 0, 1)
	}
}

// mayBeOther reports whether an object of this time that is not in Newest may be one of the others.
func (s *readSet) mayBeOther(second int64) bool { return s.Others != digest{} && second <= s.Full }

// remove removes an object that is in the set.
func (s *readSet) remove(hash uint64, modified int64) {
	o := readObject{hash, secondOf(modified)}
	from, to := s.Newest.after(o.second-1), s.Newest.after(o.second)
	if i := slices.Index(s.Newest[from:to], o); i >= 0 {
		s.Newest = slices.Delete(s.Newest, from+i, from+i+1)
		return
	}
	s.Others.change(hash, -1)
}

// compare returns the listed objects that are not in the set, and the doubtful ones: those that may be in the set.
// listed has the times of the objects by their hashes.
func (s *readSet) compare(listed map[uint64]int64) (unread, doubtful []uint64) {
	newest := make(map[uint64]bool, len(s.Newest))
	for _, o := range s.Newest {
		newest[o.hash] = true
	}
	others := s.Others
	for h, modified := range listed {
		switch {
		case newest[h]:
		case s.mayBeOther(secondOf(modified)):
			doubtful = append(doubtful, h)
			others.change(h, -1)
		default:
			unread = append(unread, h)
		}
	}
	if others == (digest{}) { // they are the others
		doubtful = nil
	}
	return unread, doubtful
}

// objectList holds objects by time.
type objectList []readObject

// after returns the index of the first object after a time.
func (l objectList) after(second int64) int {
	return sort.Search(len(l), func(i int) bool { return l[i].second > second })
}

// MarshalText implements encoding.TextMarshaler: for each object the difference to the time of the previous one, and
// the hash.
func (l objectList) MarshalText() ([]byte, error) {
	var b []byte
	last := int64(0)
	for _, o := range l {
		b = binary.AppendVarint(b, o.second-last)
		b = binary.BigEndian.AppendUint64(b, o.hash)
		last = o.second
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

var errObjectList = errors.New("invalid list of objects")

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *objectList) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return err
	}
	const hashSize = 8
	*l = nil
	for second := int64(0); len(b) > 0; {
		difference, n := binary.Varint(b)
		if n <= 0 || len(b) < n+hashSize || len(*l) > 0 && difference < 0 || len(*l) == maxNewest {
			return errObjectList
		}
		second += difference
		*l = append(*l, readObject{binary.BigEndian.Uint64(b[n:]), second})
		b = b[n+hashSize:]
	}
	return nil
}
