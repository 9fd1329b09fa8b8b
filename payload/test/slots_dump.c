/* slots_dump LIBRARY [stub]: each exported hsa_* function whose stub slots.c decodes, or with
 * stub: stub.c, with the address of its slot relative to the library. Go checks it against a
 * real disassembler (payload/payload_test.go). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "core/modules.h"
#include "core/slots.h"
#include "core/stub.h"

static void **by_stub(const struct module *m, const void *stub)
{
	struct stub s;

	if (!stub_decode(m, stub, &s) || !s.table_pointer)
		return NULL;
	return (void **)(*(char **)s.table_pointer + s.displacement);
}

int main(int argc, char **argv)
{
	char name[256];
	int stubs = argc == 3 && !strcmp(argv[2], "stub");
	void *library = argc == 2 + stubs ? dlopen(argv[1], RTLD_NOW) : NULL;
	struct link_map *map;
	struct module m;

	if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
		fprintf(stderr, "slots_dump: %s\n", dlerror());
		return 1;
	}
	if (!module_of((uintptr_t)map->l_ld, &m))
		return 1;
	while (fgets(name, sizeof name, stdin)) {
		name[strcspn(name, "\n")] = 0;
		void *stub = dlsym(library, name);
		void **slot = !stub ? NULL : stubs ? by_stub(&m, stub) : slot_decode(stub);
		if (slot)
			printf("%s %zu\n", name, (size_t)((char *)slot - (char *)map->l_addr));
	}
	return 0;
}
