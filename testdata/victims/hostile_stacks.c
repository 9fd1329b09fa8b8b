/*
 * hostile_stacks.c: threads whose stacks lie. They run and wait in a copy of this program's file that they can write, and
 * another thread writes the copy's unwind tables all the time: random words, and now and then what they were.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"

extern const Elf64_Ehdr __ehdr_start;

#define FRAMES 256

struct turn {
	uintptr_t code, bytes;
	struct timespec pause;
};

/* Position-independent, and without calls: it runs in the copy. */
static __attribute__((noinline, optimize("no-tree-loop-distribute-patterns"))) void lie(const struct turn *t)
{
	volatile uintptr_t frames[FRAMES];
	uint64_t random = (uintptr_t)frames | 1;

	for (unsigned turn = 0;; turn++) {
		for (unsigned i = 0; i < FRAMES; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			frames[i] = turn % 3 ? t->code + random % t->bytes : (uintptr_t)&frames[random % FRAMES];
		}
		if (turn % 16 == 0) {
			long result;

			__asm__ volatile("syscall" : "=a"(result) : "0"(SYS_nanosleep), "D"(&t->pause), "S"(0) : "rcx", "r11", "memory");
		}
	}
}

static struct turn turn = {.pause = {0, 50000}};
static char *tables, *right;
static size_t tables_bytes;

static void *run_copy(void *arg)
{
	void (*copied)(const struct turn *) = (void (*)(const struct turn *))(turn.code + ((uintptr_t)lie - (uintptr_t)&__ehdr_start));

	prctl(PR_SET_NAME, "\033[2J\nlies\xff");
	copied(&turn);
	return arg;
}

static void *change_tables(void *arg)
{
	uint64_t random = now() | 1;

	for (unsigned i = 1;; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		memcpy(tables + random % (tables_bytes - sizeof random), &random, sizeof random);
		if (i % 64 == 0) {
			nanosleep(&turn.pause, NULL);
			memcpy(tables, right, tables_bytes);
			nanosleep(&turn.pause, NULL);
		}
	}
	return arg;
}

void stacks(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *copy;
	pthread_t id;

	if (fd < 0 || fstat(fd, &st))
		exit(1);
	copy = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (copy == MAP_FAILED)
		exit(1);
	close(fd);
	turn.code = (uintptr_t)copy;
	turn.bytes = (uintptr_t)st.st_size;
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)copy;
	for (const Elf64_Phdr *p = (const Elf64_Phdr *)(copy + header->e_phoff); p < (const Elf64_Phdr *)(copy + header->e_phoff) + header->e_phnum; p++) {
		if (p->p_type == PT_GNU_EH_FRAME && p->p_vaddr == p->p_offset) {
			tables = copy + p->p_offset;
			tables_bytes = p->p_memsz + 512; /* .eh_frame follows */
		}
	}
	if (!tables || !(right = malloc(tables_bytes)))
		exit(1);
	memcpy(right, tables, tables_bytes);
	for (int i = 0; i < 4; i++)
		pthread_create(&id, NULL, run_copy, NULL);
	pthread_create(&id, NULL, change_tables, NULL);
}
