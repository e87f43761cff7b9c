package binlog

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// GTIDSet is a set of transactions. For MariaDB it holds the last transaction of each domain, which implies all earlier
// ones; for MySQL it holds intervals for each server. The zero Set is empty, and the first Add decides its kind.
type GTIDSet struct {
	domains map[uint32]MariaGTID
	servers map[[16]byte][]gtidInterval
}

// MariaGTID is the last transaction of a domain.
type MariaGTID struct {
	Server   uint32
	Sequence uint64
}

// gtidInterval is a range of sequence numbers, including the end.
type gtidInterval struct{ from, to uint64 }

// ParseGTIDSet parses a set in the form domain-server-sequence or uuid:1-5:7.
func ParseGTIDSet(text string) (GTIDSet, error) {
	var s GTIDSet
	for item := range strings.SplitSeq(strings.Join(strings.Fields(text), ""), ",") {
		if item == "" {
			continue
		}
		var ok bool
		if strings.Contains(item, ":") {
			ok = s.parseMySQL(item)
		} else {
			ok = s.parseMaria(item)
		}
		if !ok {
			return GTIDSet{}, fmt.Errorf("%q is not a GTID set", text)
		}
	}
	return s, nil
}

func (s *GTIDSet) parseMaria(item string) bool {
	parts := strings.Split(item, "-")
	if len(parts) != 3 {
		return false
	}
	domain, err1 := strconv.ParseUint(parts[0], 10, 32)
	server, err2 := strconv.ParseUint(parts[1], 10, 32)
	sequence, err3 := strconv.ParseUint(parts[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return false
	}
	s.AddMaria(uint32(domain), uint32(server), sequence)
	return true
}

func (s *GTIDSet) parseMySQL(item string) bool {
	name, rest, _ := strings.Cut(item, ":")
	b, err := hex.DecodeString(strings.ReplaceAll(name, "-", ""))
	if err != nil || len(b) != 16 {
		return false
	}
	for part := range strings.SplitSeq(rest, ":") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		i, err1 := strconv.ParseUint(from, 10, 63)
		j, err2 := strconv.ParseUint(to, 10, 63)
		if err1 != nil || err2 != nil || i == 0 || j < i {
			return false
		}
		s.add([16]byte(b), gtidInterval{i, j})
	}
	return true
}

// AddMaria adds a transaction of MariaDB and all earlier ones in the domain.
func (s *GTIDSet) AddMaria(domain, server uint32, sequence uint64) {
	if s.domains == nil {
		s.domains = map[uint32]MariaGTID{}
	}
	s.domains[domain] = MariaGTID{server, sequence}
}

// AddMySQL adds a transaction of MySQL.
func (s *GTIDSet) AddMySQL(server [16]byte, sequence uint64) {
	s.add(server, gtidInterval{sequence, sequence})
}

func (s *GTIDSet) add(server [16]byte, one gtidInterval) {
	if s.servers == nil {
		s.servers = map[[16]byte][]gtidInterval{}
	}
	all := s.servers[server]
	if n := len(all); n > 0 && all[n-1].to+1 == one.from { // the usual case
		all[n-1].to = one.to
		return
	}
	all = append(slices.Clone(all), one)
	slices.SortFunc(all, func(a, b gtidInterval) int { return cmp.Compare(a.from, b.from) })
	merged := all[:1]
	for _, i := range all[1:] {
		if last := &merged[len(merged)-1]; i.from <= last.to+1 {
			last.to = max(last.to, i.to)
		} else {
			merged = append(merged, i)
		}
	}
	s.servers[server] = merged
}

// HasMaria reports whether the set contains a transaction of MariaDB.
func (s *GTIDSet) HasMaria(domain uint32, sequence uint64) bool {
	last, ok := s.domains[domain]
	return ok && sequence <= last.Sequence
}

// HasMySQL reports whether the set contains a transaction of MySQL.
func (s *GTIDSet) HasMySQL(server [16]byte, sequence uint64) bool {
	return slices.ContainsFunc(s.servers[server], func(i gtidInterval) bool {
		return i.from <= sequence && sequence <= i.to
	})
}

// Missing returns the transactions of other that are not in s. For MariaDB it returns the domains that are ahead in
// other.
func (s *GTIDSet) Missing(other GTIDSet) GTIDSet {
	var missing GTIDSet
	for domain, last := range other.domains {
		if !s.HasMaria(domain, last.Sequence) {
			missing.AddMaria(domain, last.Server, last.Sequence)
		}
	}
	for server, all := range other.servers {
		for _, i := range all {
			for _, have := range s.servers[server] {
				if have.to < i.from || have.from > i.to {
					continue
				}
				if i.from < have.from {
					missing.add(server, gtidInterval{i.from, have.from - 1})
				}
				i.from = have.to + 1
			}
			if i.from <= i.to {
				missing.add(server, i)
			}
		}
	}
	return missing
}

// Empty reports whether the set is empty.
func (s *GTIDSet) Empty() bool { return len(s.domains) == 0 && len(s.servers) == 0 }

// Clone returns a deep copy.
func (s *GTIDSet) Clone() GTIDSet {
	c := GTIDSet{domains: maps.Clone(s.domains), servers: maps.Clone(s.servers)}
	for server, all := range c.servers {
		c.servers[server] = slices.Clone(all)
	}
	return c
}

// EndsAt reports whether a reader with the set s is at the place in the log of MariaDB before which other stands. With
// several domains, a reader that came from another server may have more.
func (s *GTIDSet) EndsAt(other GTIDSet) bool {
	if len(s.domains) < 2 {
		return s.String() == other.String()
	}
	missing := s.Missing(other)
	return missing.Empty()
}

// EndsBefore reports whether a reader with the set s is at the beginning of the oldest file in the log of MariaDB,
// before which other stands. Domains that only the reader has come from its previous server.
func (s *GTIDSet) EndsBefore(other GTIDSet) bool {
	for domain, last := range other.domains {
		if s.domains[domain] != last {
			return false
		}
	}
	return len(other.domains) > 0 || len(s.domains) == 0
}

// String returns the set in the form that Parse reads. Equal sets have equal strings.
func (s *GTIDSet) String() string {
	var b []byte
	for _, domain := range slices.Sorted(maps.Keys(s.domains)) {
		last := s.domains[domain]
		b = appendMaria(comma(b), domain, last.Server, last.Sequence)
	}
	for _, server := range s.sortedServers() {
		b = appendUUID(comma(b), server)
		for _, i := range s.servers[server] {
			b = strconv.AppendUint(append(b, ':'), i.from, 10)
			if i.to > i.from {
				b = strconv.AppendUint(append(b, '-'), i.to, 10)
			}
		}
	}
	return string(b)
}

func (s *GTIDSet) sortedServers() [][16]byte {
	return slices.SortedFunc(maps.Keys(s.servers), func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) })
}

func comma(b []byte) []byte {
	if len(b) > 0 {
		return append(b, ',')
	}
	return b
}

func appendMaria(b []byte, domain, server uint32, sequence uint64) []byte {
	b = strconv.AppendUint(b, uint64(domain), 10)
	b = strconv.AppendUint(append(b, '-'), uint64(server), 10)
	return strconv.AppendUint(append(b, '-'), sequence, 10)
}

func appendUUID(b []byte, u [16]byte) []byte {
	for i, n := range []int{4, 2, 2, 2, 6} {
		if i > 0 {
			b = append(b, '-')
		}
		at := []int{0, 4, 6, 8, 10}[i]
		b = hex.AppendEncode(b, u[at:at+n])
	}
	return b
}

// FormatMariaGTID returns the text of a GTID of MariaDB.
func FormatMariaGTID(domain, server uint32, sequence uint64) string {
	return string(appendMaria(nil, domain, server, sequence))
}

// FormatMySQLGTID returns the text of a GTID of MySQL.
func FormatMySQLGTID(server [16]byte, sequence uint64) string {
	return string(strconv.AppendUint(append(appendUUID(nil, server), ':'), sequence, 10))
}

// Encode encodes a set of MySQL for the protocol: the number of servers, and for each its UUID, the number of
// intervals, and their beginnings and exclusive ends.
func (s *GTIDSet) Encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(s.servers)))
	for _, server := range s.sortedServers() {
		b = append(b, server[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s.servers[server])))
		for _, i := range s.servers[server] {
			b = binary.LittleEndian.AppendUint64(b, i.from)
			b = binary.LittleEndian.AppendUint64(b, i.to+1)
		}
	}
	return b
}

// Join adds all transactions of other.
func (s *GTIDSet) Join(other GTIDSet) {
	for domain, last := range other.domains {
		s.AddMaria(domain, last.Server, last.Sequence)
	}
	for server, all := range other.servers {
		for _, i := range all {
			s.add(server, i)
		}
	}
}
