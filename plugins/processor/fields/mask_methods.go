package fields

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// hider returns the function of a method, which makes the text that replaces a text.
func hider(s maskSettings) (func(string) (string, error), error) {
	switch s.Method {
	case "hash":
		return pseudonymizer(s)
	case "truncate", "keep-last":
		return func(text string) (string, error) { return keepLast(text, s.Keep), nil }, nil
	case "keep-first":
		return func(text string) (string, error) { return keepFirst(text, s.Keep), nil }, nil
	case "ip":
		if s.IPv4 > 32 {
			return nil, sdk.SettingError{Setting: "ipv4.prefix", Message: "must be at most 32"}
		}
		if s.IPv6 > 128 {
			return nil, sdk.SettingError{Setting: "ipv6.prefix", Message: "must be at most 128"}
		}
		if i := slices.IndexFunc(s.Patterns, func(p string) bool { return p != "ipv4" && p != "ipv6" }); i >= 0 {
			return nil, unsuitable(s.Method, s.Patterns[i], "ipv4 and ipv6")
		}
		return prefixer{s.IPv4, s.IPv6}.hide, nil
	case "email":
		if i := slices.IndexFunc(s.Patterns, func(p string) bool { return p != "email" }); i >= 0 {
			return nil, unsuitable(s.Method, s.Patterns[i], "email")
		}
		return func(text string) (string, error) { return hideLocalPart(text, s.LocalKeep) }, nil
	}
	return func(string) (string, error) { return s.With, nil }, nil
}

func unsuitable(method, pattern, want string) error {
	return sdk.SettingError{Setting: "patterns",
		Message: fmt.Sprintf("%q does not suit method %s, which takes %s", pattern, method, want)}
}

// keepLast replaces all characters except the last keep by stars. A text of at most 2*keep characters is hidden as a
// whole.
func keepLast(text string, keep int) string {
	n := utf8.RuneCountInString(text)
	if n <= 2*keep {
		return strings.Repeat("*", n)
	}
	last := []rune(text)[n-keep:]
	return strings.Repeat("*", n-keep) + string(last)
}

// keepFirst replaces all characters except the first keep by stars. A text of at most 2*keep characters is hidden as a
// whole.
func keepFirst(text string, keep int) string {
	n := utf8.RuneCountInString(text)
	if n <= 2*keep {
		return strings.Repeat("*", n)
	}
	return string([]rune(text)[:keep]) + strings.Repeat("*", n-keep)
}

// localStars replace the local part of an e-mail address. Their number does not depend on the length of the local part.
const localStars = "***"

// hideLocalPart replaces the local part of an e-mail address, except for its first keep characters. A local part of at
// most 2*keep characters is hidden as a whole. Hiding twice has the same
// result, so that a record may pass again.
func hideLocalPart(text string, keep int) (string, error) {
	at := strings.LastIndexByte(text, '@')
	if at < 1 || at == len(text)-1 || strings.ContainsAny(text[at:], " \t\r\n<>") {
		return "", fmt.Errorf("it is not an e-mail address")
	}
	local := text[:at]
	kept, hidden := strings.CutSuffix(local, localStars)
	switch {
	case local == localStars || hidden && utf8.RuneCountInString(kept) == keep:
		return text, nil
	case utf8.RuneCountInString(local) <= 2*keep:
		return localStars + text[at:], nil
	}
	return string([]rune(local)[:keep]) + localStars + text[at:], nil
}

// prefixer replaces IP addresses by the first address of their network.
type prefixer struct{ ipv4, ipv6 int } // lengths of the prefixes

// hide takes an address alone, in brackets, with a port, with a zone, or with the length of a prefix.
func (p prefixer) hide(text string) (string, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return p.firstAddress(a).String(), nil
	}
	if a, err := netip.ParseAddrPort(text); err == nil {
		return netip.AddrPortFrom(p.firstAddress(a.Addr()), a.Port()).String(), nil
	}
	if a, err := netip.ParsePrefix(text); err == nil {
		bits := min(a.Bits(), p.bits(a.Addr()))
		return netip.PrefixFrom(p.firstAddress(a.Addr()), bits).String(), nil
	}
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		if a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); err == nil && a.Is6() {
			return "[" + p.firstAddress(a).String() + "]", nil
		}
	}
	return "", fmt.Errorf("it is not an IP address")
}

// mappedBits is the length of the prefix that is the same in all IPv6 addresses that contain an IPv4 address.
const mappedBits = 96

func (p prefixer) bits(a netip.Addr) int {
	switch {
	case a.Is4():
		return p.ipv4
	case a.Is4In6():
		return mappedBits + p.ipv4
	}
	return p.ipv6
}

// firstAddress returns the first address of the network of a, without a zone, which names an interface of a host.
func (p prefixer) firstAddress(a netip.Addr) netip.Addr {
	network, _ := a.WithZone("").Prefix(p.bits(a)) // Configure has checked the lengths
	return network.Addr()
}

// minPseudonym is the minimum length of a shortened pseudonym: 64 bits in hexadecimal.
const minPseudonym = 16

// pseudonyms writes pseudonyms in base32: lower case, so that they are names in most systems.
var pseudonyms = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// pseudonymizer returns a function that replaces a text by a pseudonym made with the key. The pseudonym depends on the
// text, the key and the format only.
func pseudonymizer(s maskSettings) (func(string) (string, error), error) {
	if s.Key == "" {
		return nil, sdk.SettingError{Setting: "key",
			Message: "is required for method hash: without a secret, short values are found by trying"}
	}
	sum := func(text string) []byte {
		h := hmac.New(sha256.New, []byte(s.Key))
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	if s.Format == "digits" {
		if s.Length > 0 {
			return nil, sdk.SettingError{Setting: "length",
				Message: "cannot be set with format digits: the pseudonym is as long as the value"}
		}
		return func(text string) (string, error) { return digits(sum(text), utf8.RuneCountInString(text)), nil }, nil
	}
	encode := hex.EncodeToString
	if s.Format == "base32" {
		encode = pseudonyms.EncodeToString
	}
	most := len(encode(sum("")))
	if s.Length > 0 && (s.Length < minPseudonym || s.Length > most) {
		return nil, sdk.SettingError{Setting: "length", Message: fmt.Sprintf("must be 0 or %d to %d for format %s: "+
			"shorter pseudonyms of different values are soon equal", minPseudonym, most, s.Format)}
	}
	n := most
	if s.Length > 0 {
		n = s.Length
	}
	return func(text string) (string, error) { return encode(sum(text))[:n], nil }, nil
}

// digits returns n decimal digits that depend on the seed only, each with the same probability.
func digits(seed []byte, n int) string {
	const fair = 250 // bytes from here on would make some digits more frequent
	out := make([]byte, 0, n)
	for block := uint64(0); len(out) < n; block++ {
		h := hmac.New(sha256.New, seed)
		h.Write(binary.BigEndian.AppendUint64([]byte("digits"), block))
		for _, b := range h.Sum(nil) {
			if b < fair && len(out) < n {
				out = append(out, '0'+b%10)
			}
		}
	}
	return string(out)
}
