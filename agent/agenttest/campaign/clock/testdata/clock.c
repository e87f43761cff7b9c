// A library to preload, which sets the wall clock of one process: it adds to it what stands in a file that is
// mapped, so that another process can set the clock at any moment. The monotonic clock stays as it is.
//
// Go's runtime calls no C library for its clocks but the kernel's vDSO, an ELF image whose address stands in the
// auxiliary vector. Before the runtime starts, the address is replaced by that of an image made here.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define VERSION "LINUX_2.6"
#define VERSION_HASH 0x3ae75f6
#define GETTIME "__vdso_clock_gettime"
#elif defined(__aarch64__)
#define VERSION "LINUX_2.6.39"
#define VERSION_HASH 0x75fcb89
#define GETTIME "__kernel_clock_gettime"
#else
#error "no vDSO is known of this architecture"
#endif

static volatile const int64_t *ahead; // of the clock of the host, in nanoseconds

// The system call is made here: the C library would set errno, which threads of Go are not to see changed.
static long kernel_gettime(long clock, struct timespec *at) {
#if defined(__x86_64__)
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(SYS_clock_gettime), "D"(clock), "S"(at) : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = SYS_clock_gettime, x0 __asm__("x0") = clock, x1 __asm__("x1") = (long)at;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
	return x0;
#endif
}

static int gettime(clockid_t clock, struct timespec *at) {
	long result = kernel_gettime(clock, at);
	if (result == 0 && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		int64_t now = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + *ahead;
		at->tv_sec = now / 1000000000;
		at->tv_nsec = now % 1000000000;
	}
	return (int)result;
}

// What C code of the process calls.
int clock_gettime(clockid_t clock, struct timespec *at) { return gettime(clock, at); }
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
	struct timespec now;
	(void)zone;
	gettime(CLOCK_REALTIME, &now);
	at->tv_sec = now.tv_sec;
	at->tv_usec = now.tv_nsec / 1000;
	return 0;
}
time_t time(time_t *at) {
	struct timespec now;
	gettime(CLOCK_REALTIME, &now);
	if (at) *at = now.tv_sec;
	return now.tv_sec;
}

// image is all that Go reads of a vDSO: two segments, the dynamic table, and one function with a version.
static struct {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
	Elf64_Dyn dynamic[6];
	uint32_t hash[5]; // 1 bucket, 2 symbols: bucket[0] = 1, chain[0] = chain[1] = 0
	Elf64_Half versions[2];
	Elf64_Sym symbols[2];
	Elf64_Verdef definition;
	Elf64_Verdaux name;
	char strings[64];
} image;

#define OFFSET(member) ((uintptr_t)&image.member - (uintptr_t)&image)

static void make_image(void) {
	image.header.e_phoff = OFFSET(segments);
	image.header.e_phnum = 2;
	image.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = sizeof image};
	image.segments[1] = (Elf64_Phdr){.p_type = PT_DYNAMIC, .p_offset = OFFSET(dynamic)};
	image.dynamic[0] = (Elf64_Dyn){DT_STRTAB, {OFFSET(strings)}};
	image.dynamic[1] = (Elf64_Dyn){DT_SYMTAB, {OFFSET(symbols)}};
	image.dynamic[2] = (Elf64_Dyn){DT_HASH, {OFFSET(hash)}};
	image.dynamic[3] = (Elf64_Dyn){DT_VERSYM, {OFFSET(versions)}};
	image.dynamic[4] = (Elf64_Dyn){DT_VERDEF, {OFFSET(definition)}};
	image.hash[0] = 1;
	image.hash[1] = 2;
	image.hash[2] = 1;
	image.versions[1] = 2;
	image.symbols[1] = (Elf64_Sym){
		.st_name = 1,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = 1,
		.st_value = (uintptr_t)gettime - (uintptr_t)&image,
	};
	image.definition = (Elf64_Verdef){.vd_ndx = 2, .vd_hash = VERSION_HASH, .vd_aux = OFFSET(name) - OFFSET(definition)};
	strcpy(image.strings + 1, GETTIME);
	image.name.vda_name = 1 + sizeof GETTIME;
	strcpy(image.strings + image.name.vda_name, VERSION);
}

__attribute__((constructor)) static void replace(int argc, char **argv, char **env) {
	(void)argc, (void)argv;
	const char *path = getenv("WALL_CLOCK_OF_TEST");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0) return;
	void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (mapped == MAP_FAILED) return;
	ahead = mapped;
	make_image();
	while (*env) env++;
	for (Elf64_auxv_t *v = (Elf64_auxv_t *)(env + 1); v->a_type != AT_NULL; v++)
		if (v->a_type == AT_SYSINFO_EHDR) v->a_un.a_val = (uintptr_t)&image;
}
