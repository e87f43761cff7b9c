//go:build cgo

package process

/*
#include <malloc.h>

// Large blocks are mapped one by one and unmapped when they are freed. By default glibc maps no blocks
// of a size that was freed before, and the arena of each thread keeps one of them.
static void return_large_blocks(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}
*/
import "C"

// returnLargeBlocks makes memory that SQLite allocates for large values go back to the kernel after use.
func returnLargeBlocks() { C.return_large_blocks() }
