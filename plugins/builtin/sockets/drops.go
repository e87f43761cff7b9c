package sockets

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// KernelDrops returns the number of packets that the kernel has dropped for the UDP socket at this address because they
// were not read in time. It returns 0 for other sockets, and on systems other than Linux.
func KernelDrops(a net.Addr) (n int64) {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return 0
	}
	for _, table := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		content, _ := os.ReadFile(table)
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) > 12 && fields[1] == procAddress(u, strings.HasSuffix(table, "6")) {
				drops, _ := strconv.ParseInt(fields[len(fields)-1], 10, 64)
				n += drops
			}
		}
	}
	return n
}

// DropWarning returns the warning about dropped messages of a UDP socket.
func DropWarning(n int64) string {
	return fmt.Sprintf("%d messages over UDP were dropped: they arrive faster than the pipeline writes them", n)
}

// procAddress returns an address in the format of /proc/net: words in the byte order of the machine, here little
// endian, in hexadecimal.
func procAddress(u *net.UDPAddr, six bool) string {
	ip := u.IP.To4()
	if six {
		ip = u.IP.To16()
	}
	var text strings.Builder
	for i := 0; i+4 <= len(ip); i += 4 {
		text.WriteString(strings.ToUpper(hex.EncodeToString([]byte{ip[i+3], ip[i+2], ip[i+1], ip[i]})))
	}
	return fmt.Sprintf("%s:%04X", text.String(), u.Port)
}
