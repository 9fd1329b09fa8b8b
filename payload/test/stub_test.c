/*
 * stub_test LIBRARY...: stub.c on libraries with a dispatch table (double.cpp) as several
 * compilers build them, before and after their first use, and on arbitrary bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"
#include "core/modules.h"
#include "core/stub.h"
#include "double.h"

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                               \
		}                                                              \
	} while (0)

static const struct {
	const char *name;
	size_t at;
} all[] = {
#define F(name, member) {#name, offsetof(struct table, member)},
	DOUBLE_FUNCTIONS(F)
#undef F
};
#define FUNCTIONS (sizeof all / sizeof *all)

/* 0: it does not decode. What find.c does, in short. */
static uintptr_t slot_of(const struct module *m, const void *code)
{
	struct stub s;

	if (!stub_decode(m, code, &s))
		return 0;
	if (s.table_pointer)
		return *(uintptr_t *)s.table_pointer + s.displacement;
	return ((uintptr_t (*)(void))s.table_function)() + s.displacement;
}

/* In a process of its own, because it uses the library: of one function before any use, or of all after. */
static uint32_t decode_all(const char *path, int first)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	uintptr_t slots[FUNCTIONS] = {0};
	uint32_t decoded = 0;
	struct module m;

	CHECK(library && module_of((uintptr_t)dlsym(library, "hipGetNothing"), &m));
	int (*use)(void) = (__typeof__(use))dlsym(library, "hipGetNothing");
	struct table *volatile *table = dlsym(library, "double_table");
	if (first < 0)
		use();
	for (size_t i = 0; i < FUNCTIONS; i++)
		if (first < 0 || (size_t)first == i)
			slots[i] = slot_of(&m, dlsym(library, all[i].name));
	use();
	for (size_t i = 0; i < FUNCTIONS; i++) {
		CHECK(!slots[i] || slots[i] == (uintptr_t)*table + all[i].at);
		decoded += slots[i] != 0;
	}
	return decoded;
}

static uint32_t decoded_apart(const char *path, int first)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (!child)
		_exit((int)decode_all(path, first));
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status));
	return (uint32_t)WEXITSTATUS(status);
}

static void library(const char *path)
{
	uint32_t used = decoded_apart(path, -1), early = 0;

	for (size_t i = 0; i < FUNCTIONS; i++)
		early += decoded_apart(path, (int)i);
	printf("%s: %u of %zu, before its first use %u\n", strrchr(path, '/') + 1, used, FUNCTIONS, early);
	/* gcc -O1 leaves one function's call of the table's function in front of other code */
	CHECK(used == FUNCTIONS || (used == FUNCTIONS - 1 && strstr(path, "g++-1")));
	CHECK(early == used || !strstr(path, "-call")); /* find.c makes the table, too */
}

/* --- bytes that are no stub --------------------------------------------------------- */

static uint64_t random_state = 88172645463325252ull;
static uint8_t random_byte(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint8_t)(random_state >> 24);
}

/* Bytes that begin instructions which are followed are frequent. */
static uint8_t likely_byte(void)
{
	static const uint8_t known[] = {0x48, 0x8b, 0x05, 0x0f, 0xb6, 0x84, 0xc0, 0x74, 0x75, 0xeb, 0xe9, 0xe8, 0xff, 0x60, 0x80, 0x3d, 0,
					0x8d, 0x89, 0x83, 0xec, 0x55, 0x5d, 0x66, 0x81, 0xf3, 0x1e, 0xfa, 0x7e, 0xe0, 0x20, 0x10};

	return random_byte() & 3 ? known[random_byte() % sizeof known] : random_byte();
}

struct page {
	uint8_t *at;
	ElfW(Phdr) header;
	struct module module;
};

/* A page that can be read, alone: an object of one segment. */
static void make_page(struct page *p)
{
	uint8_t *three = mmap(NULL, 3 * RTL_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(three != MAP_FAILED);
	p->at = three + RTL_PAGE;
	CHECK(!mprotect(p->at, RTL_PAGE, PROT_READ | PROT_WRITE));
	p->header = (ElfW(Phdr)){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = RTL_PAGE - 8};
	p->module = (struct module){.base = (uintptr_t)p->at, .headers = &p->header, .header_count = 1};
}

static void arbitrary_bytes(struct page *p)
{
	uint32_t decoded = 0;
	struct stub s;

	for (int round = 0; round < 2000; round++) {
		for (uint32_t i = 0; i < RTL_PAGE; i++)
			p->at[i] = likely_byte();
		for (uint32_t i = 0; i < RTL_PAGE; i += round % 2 ? 1 : 7)
			decoded += stub_decode(&p->module, p->at + i, &s);
	}
	CHECK(decoded > 100);
	printf("arbitrary bytes: %u decode\n", decoded);
}

/* mov 0x10(%rip),%rax; add $8,%rsp; jmp *0x100(%rax), up to the end of the page, and cut off there. */
static void at_the_end(struct page *p)
{
	static const uint8_t code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xff, 0xa0, 0, 1, 0, 0};
	struct stub s;

	for (size_t cut = 0; cut < sizeof code; cut++) {
		uint8_t *at = p->at + RTL_PAGE - sizeof code + cut;

		memset(p->at, 0x90, RTL_PAGE);
		memcpy(at, code, sizeof code - cut);
		CHECK(stub_decode(&p->module, at, &s) == !cut);
		CHECK(cut || (s.displacement == 0x100 && s.table_pointer == (uintptr_t)at + 11 + 0x10));
	}
}

/* A shorter constant than the form has: the next instruction would be read in its middle. Flags
 * that are not the guard's. */
static void look_alikes(struct page *p)
{
	static const uint8_t words[] = {0x48, 0x8b, 0x05, 0, 0, 0, 0, 0x66, 0x81, 0xc1, 1, 1, 0xff, 0x60, 0xff, 0x60, 8};
	static const uint8_t flags[] = {0x80, 0x3d, 0, 0, 0, 0, 0, 0x48, 0x83, 0xe1, 8, 0x75, 0, 0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xff, 0x60, 8};
	struct stub s;

	memcpy(p->at, words, sizeof words);
	CHECK(!stub_decode(&p->module, p->at, &s));
	memcpy(p->at, flags, sizeof flags);
	CHECK(!stub_decode(&p->module, p->at, &s));
}

int main(int argc, char **argv)
{
	struct page p;

	for (int i = 1; i < argc; i++)
		library(argv[i]);
	make_page(&p);
	arbitrary_bytes(&p);
	at_the_end(&p);
	look_alikes(&p);
	printf("stub_test: all right\n");
	return 0;
}
