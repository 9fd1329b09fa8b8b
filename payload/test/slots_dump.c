/* slots_dump LIBRARY: each exported hsa_* function whose stub slots.c decodes,
 * with the address of its slot relative to the library. Go checks it against
 * a real disassembler (payload/slots_test.go). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "core/slots.h"

int main(int argc, char **argv)
{
	char name[256];
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	struct link_map *map;

	if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
		fprintf(stderr, "slots_dump: %s\n", dlerror());
		return 1;
	}
	while (fgets(name, sizeof name, stdin)) {
		name[strcspn(name, "\n")] = 0;
		void *stub = dlsym(library, name);
		void **slot = stub ? slot_decode(stub) : NULL;
		if (slot)
			printf("%s %zu\n", name, (size_t)((char *)slot - (char *)map->l_addr));
	}
	return 0;
}
