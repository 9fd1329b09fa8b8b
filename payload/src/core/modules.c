/* modules.c: see modules.h. */
#define _GNU_SOURCE
#include "core/modules.h"

#include <elf.h>
#include <string.h>

#include "abi.h"

/* DT_GNU_HASH: the last symbol is the end of the chain of the bucket that begins last. */
static uint32_t count_by_gnu_hash(const uint32_t *h)
{
	uint32_t buckets = h[0], first = h[1], bloom_words = h[2], last = 0;
	const uint32_t *bucket = h + 4 + bloom_words * 2, *chain = bucket + buckets;

	for (uint32_t i = 0; i < buckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static void read_entry(struct module *m, const ElfW(Dyn) *d)
{
	uintptr_t value = d->d_un.d_ptr;
	/* glibc has added the base, except in objects whose dynamic section is read-only */
	const void *at = (const void *)(value < m->base ? value + m->base : value);

	switch (d->d_tag) {
	case DT_SYMTAB:
		m->symbols = at;
		break;
	case DT_STRTAB:
		m->strings = at;
		break;
	case DT_GNU_HASH:
		m->gnu_hash = at;
		m->symbol_count = count_by_gnu_hash(at);
		break;
	case DT_HASH:
		if (!m->symbol_count)
			m->symbol_count = ((const uint32_t *)at)[1];
		break;
	case DT_RELA:
		m->relocations[0] = at;
		break;
	case DT_RELASZ:
		m->relocation_count[0] = value / sizeof(ElfW(Rela));
		break;
	case DT_JMPREL:
		m->relocations[1] = at;
		break;
	case DT_PLTRELSZ:
		m->relocation_count[1] = value / sizeof(ElfW(Rela));
		break;
	}
}

bool module_read(const struct dl_phdr_info *info, struct module *out)
{
	const ElfW(Dyn) *d = NULL;

	*out = (struct module){.base = info->dlpi_addr, .headers = info->dlpi_phdr, .header_count = info->dlpi_phnum};
	for (uint32_t i = 0; i < out->header_count; i++)
		if (out->headers[i].p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(out->base + out->headers[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++)
		read_entry(out, d);
	return out->symbols && out->strings;
}

bool module_has(const struct module *m, uintptr_t address, uint32_t flags)
{
	for (uint32_t i = 0; i < m->header_count; i++) {
		const ElfW(Phdr) *ph = &m->headers[i];

		if (ph->p_type == PT_LOAD && (ph->p_flags & flags) == flags && address - (m->base + ph->p_vaddr) < ph->p_memsz)
			return true;
	}
	return false;
}

size_t module_extent(const struct module *m, uintptr_t address, uint32_t flags)
{
	for (uint32_t i = 0; i < m->header_count; i++) {
		const ElfW(Phdr) *ph = &m->headers[i];
		uintptr_t lo = m->base + ph->p_vaddr, hi = (lo + ph->p_memsz + RTL_PAGE - 1) & ~(RTL_PAGE - 1ul);

		if (ph->p_type == PT_LOAD && (ph->p_flags & flags) == flags && address >= lo && address < hi)
			return hi - address;
	}
	return 0;
}

bool module_protects(const struct module *m, uintptr_t address)
{
	for (uint32_t i = 0; i < m->header_count; i++) {
		const ElfW(Phdr) *ph = &m->headers[i];
		uintptr_t lo = (m->base + ph->p_vaddr) & ~(RTL_PAGE - 1ul), hi = (m->base + ph->p_vaddr + ph->p_memsz) & ~(RTL_PAGE - 1ul);

		if (ph->p_type == PT_GNU_RELRO && address >= lo && address < hi)
			return true;
	}
	return false;
}

struct search {
	uintptr_t address;
	struct module *out;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *s = data;

	(void)size;
	return module_read(info, s->out) && module_has(s->out, s->address, 0);
}

bool module_of(uintptr_t address, struct module *out)
{
	struct search s = {address, out};

	return dl_iterate_phdr(visit, &s);
}

bool module_stands_in(const struct module *m, const char *name, uintptr_t address)
{
	for (uint32_t i = 1; i < m->symbol_count; i++) {
		const ElfW(Sym) *s = &m->symbols[i];

		if (s->st_shndx == SHN_UNDEF && s->st_value && m->base + s->st_value == address && !strcmp(m->strings + s->st_name, name))
			return true;
	}
	return false;
}

static bool is_definition(const struct module *m, const ElfW(Sym) *s, const char *name)
{
	return s->st_shndx != SHN_UNDEF && !strcmp(m->strings + s->st_name, name);
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

/* The Bloom filter excludes most objects without a look at their symbols. */
static uintptr_t find_by_gnu_hash(const struct module *m, const char *name)
{
	uint32_t hash = gnu_hash_of(name), buckets = m->gnu_hash[0], first = m->gnu_hash[1], words = m->gnu_hash[2], shift = m->gnu_hash[3];
	const uint64_t *bloom = (const uint64_t *)(m->gnu_hash + 4);
	const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
	uint64_t mask = 1ull << (hash % 64) | 1ull << ((hash >> shift) % 64);

	if (!buckets || !words || (bloom[hash / 64 % words] & mask) != mask)
		return 0;
	for (uint32_t i = bucket[hash % buckets]; i >= first && i; i++) {
		if ((chain[i - first] | 1) == (hash | 1) && is_definition(m, &m->symbols[i], name))
			return m->base + m->symbols[i].st_value;
		if (chain[i - first] & 1)
			return 0;
	}
	return 0;
}

uintptr_t module_defines(const struct module *m, const char *name)
{
	if (m->gnu_hash)
		return find_by_gnu_hash(m, name);
	for (uint32_t i = 1; i < m->symbol_count; i++)
		if (is_definition(m, &m->symbols[i], name))
			return m->base + m->symbols[i].st_value;
	return 0;
}

void module_each_function(const struct module *m, void (*visit_function)(const char *, uintptr_t, void *), void *data)
{
	for (uint32_t i = 1; i < m->symbol_count; i++) {
		const ElfW(Sym) *s = &m->symbols[i];

		if (s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC)
			visit_function(m->strings + s->st_name, m->base + s->st_value, data);
	}
}
