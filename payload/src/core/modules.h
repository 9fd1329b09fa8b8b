/* modules.h: the symbols and relocations of loaded objects, read in memory. */
#ifndef RTL_MODULES_H
#define RTL_MODULES_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct module {
	uintptr_t base;
	const ElfW(Phdr) *headers;
	uint32_t header_count;
	const ElfW(Sym) *symbols;
	uint32_t symbol_count;
	const uint32_t *gnu_hash; /* NULL: it has none */
	const char *strings;
	const ElfW(Rela) *relocations[2]; /* of data, and of the procedure linkage table */
	size_t relocation_count[2];
};

/* In a callback of dl_iterate_phdr, which keeps the object mapped. (There, dlsym, dladdr and
 * dlopen would deadlock with another thread's dlopen.) False: it has no dynamic symbols. */
bool module_read(const struct dl_phdr_info *info, struct module *out);

/* The object that contains address. What out refers to is valid as long as it is loaded. */
bool module_of(uintptr_t address, struct module *out);

/* Whether the address is in a segment of the object with all of these flags (PF_W, PF_X). */
bool module_has(const struct module *m, uintptr_t address, uint32_t flags);

/* How many bytes can be read from address on, in pages of one segment with all of these flags. */
size_t module_extent(const struct module *m, uintptr_t address, uint32_t flags);

/* Whether the loader has made the address read-only after it relocated the object. */
bool module_protects(const struct module *m, uintptr_t address);

/* Whether address stands for the function in an executable that imports it: a fixed executable that takes
 * a function's address has a stub of its own, and all objects use the stub's address. */
bool module_stands_in(const struct module *m, const char *name, uintptr_t address);

/* The address of a symbol that the object defines; 0: it does not. */
uintptr_t module_defines(const struct module *m, const char *name);

/* Calls visit for each function that the object exports. */
void module_each_function(const struct module *m, void (*visit)(const char *name, uintptr_t address, void *data), void *data);

#endif
