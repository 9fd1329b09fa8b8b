/*
 * Which kernel a packet's kernel object is. ROCr copies the whole ELF image of
 * a code object into "VRAM", so its symbol table is there to be read; ROCr's
 * own blit kernels have none and are known by their first instructions.
 */
#include <elf.h>
#include <hsa/amd_hsa_kernel_code.h>
#include <string.h>

#include "engine.h"

enum { MAX_KERNELS = 4096 };

static struct kernel kernels[MAX_KERNELS]; /* open addressing; entries are never removed */

/* Scalar loads of the kernel arguments: s_load_dwordx4/x8 with their offsets. */
struct blit_signature {
	uint32_t first, second, third, fourth;
};
static const struct blit_signature gfx9_loads = { 0xC00A0100, 0xC00A0200, 0xC00A0300, 0xC00A0400 };
static const struct blit_signature gfx10_loads = { 0xF4080100, 0xF4080200, 0xF4080300, 0xF4080400 };

static enum kernel_kind rocr_kind(const uint32_t *code, const struct blit_signature *s)
{
	if (code[0] != s->first || code[2] != s->second)
		return KERNEL_USER;
	if (code[4] != s->third)
		return KERNEL_ROCR_FILL;
	return code[6] == s->fourth ? KERNEL_ROCR_COPY_ALIGNED : KERNEL_ROCR_COPY_MISALIGNED;
}

/* An allocation of its own: an amd_kernel_code_t with the code behind it. */
static void identify_rocr(struct kernel *k, const struct memory_range *m)
{
	static const char *const names[] = {
		[KERNEL_ROCR_COPY_ALIGNED] = "rocr:copy_aligned",
		[KERNEL_ROCR_COPY_MISALIGNED] = "rocr:copy_misaligned",
		[KERNEL_ROCR_FILL] = "rocr:fill",
	};
	const amd_kernel_code_t *code = (const amd_kernel_code_t *)k->object;
	uint64_t entry = (uint64_t)code->kernel_code_entry_byte_offset;
	const uint32_t *first;

	if (k->object != m->base || m->bytes < 4096 || entry > m->bytes - 64)
		return;
	first = (const uint32_t *)(k->object + entry);
	k->kind = rocr_kind(first, &gfx9_loads);
	if (k->kind == KERNEL_USER)
		k->kind = rocr_kind(first, &gfx10_loads);
	if (k->kind != KERNEL_USER)
		strcpy(k->name, names[k->kind]);
}

struct symbols {
	const Elf64_Sym *table;
	const char *strings;
	uint32_t count;
};

static struct symbols dynamic_symbols(uint64_t image)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
	const Elf64_Phdr *segment = (const Elf64_Phdr *)(image + header->e_phoff);
	const Elf64_Dyn *d = NULL;
	struct symbols s = { 0 };

	for (unsigned i = 0; i < header->e_phnum; i++)
		if (segment[i].p_type == PT_DYNAMIC)
			d = (const Elf64_Dyn *)(image + segment[i].p_vaddr);
	for (; d && d->d_tag; d++) {
		if (d->d_tag == DT_SYMTAB)
			s.table = (const Elf64_Sym *)(image + d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			s.strings = (const char *)(image + d->d_un.d_ptr);
		else if (d->d_tag == DT_HASH)
			s.count = ((const uint32_t *)(image + d->d_un.d_ptr))[1]; /* nchain */
	}
	return s;
}

/* Without the suffix of the kernel descriptor's symbol, ".kd". */
static void name_from_image(struct kernel *k, uint64_t image)
{
	struct symbols s = dynamic_symbols(image);
	size_t length;

	for (uint32_t i = 0; s.table && s.strings && i < s.count; i++) {
		if (s.table[i].st_value != k->object - image)
			continue;
		length = strnlen(s.strings + s.table[i].st_name, sizeof k->name - 1);
		memcpy(k->name, s.strings + s.table[i].st_name, length);
		k->name[length] = 0;
		if (length > 3 && !strcmp(k->name + length - 3, ".kd")) {
			k->name[length - 3] = 0;
			return;
		}
	}
}

static enum kernel_kind hip_kind(const char *name)
{
	static const struct {
		const char *name;
		enum kernel_kind kind;
	} known[] = {
		{ "__amd_rocclr_copyBuffer", KERNEL_HIP_COPY },
		{ "__amd_rocclr_copyBufferAligned", KERNEL_HIP_COPY_ALIGNED },
		{ "__amd_rocclr_copyBufferRect", KERNEL_HIP_COPY_RECT },
		{ "__amd_rocclr_copyBufferRectAligned", KERNEL_HIP_COPY_RECT_ALIGNED },
		{ "__amd_rocclr_fillBufferAligned", KERNEL_HIP_FILL },
		{ "__amd_rocclr_fillBufferAligned2D", KERNEL_HIP_FILL_2D },
		{ "__amd_rocclr_streamOpsWrite", KERNEL_HIP_WRITE },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(name, known[i].name))
			return known[i].kind;
	return KERNEL_USER;
}

/* False: the memory table is busy. */
static bool identify(struct kernel *k)
{
	struct memory_range m;

	switch (memory_find(k->object, &m)) {
	case MEMORY_BUSY:
		return false;
	case MEMORY_UNKNOWN:
		m.generation = memory_generation();
		break; /* a test's made-up kernel object: a duration without a name */
	case MEMORY_FOUND:
		if (!memcmp((const void *)m.base, ELFMAG, SELFMAG)) {
			name_from_image(k, m.base);
			k->kind = hip_kind(k->name);
		} else {
			identify_rocr(k, &m);
		}
	}
	k->generation = m.generation;
	return true;
}

/* After something was freed, the address may belong to another kernel. */
static struct kernel *confirm(struct kernel *k)
{
	struct kernel fresh = { .object = k->object };

	if (!identify(&fresh))
		return NULL;
	k->generation = fresh.generation;
	if (k->name_id && !strcmp(k->name, fresh.name))
		return k;
	k->kind = fresh.kind;
	strcpy(k->name, fresh.name);
	k->name_id = truth_name(fresh.name);
	return k;
}

struct kernel *kernel_of(uint64_t object)
{
	uint32_t at = (uint32_t)(object >> 6) * 2654435761u % MAX_KERNELS;

	for (uint32_t tries = 0; tries < MAX_KERNELS; tries++, at = (at + 1) % MAX_KERNELS) {
		struct kernel *k = &kernels[at];

		if (k->object == object && k->generation == memory_generation())
			return k;
		if (!k->object || k->object == object) {
			k->object = object;
			return confirm(k);
		}
	}
	return &kernels[at]; /* more kernels than any workload has: this one's name is wrong */
}

void kernel_forget_after_fork(void)
{
	memset(kernels, 0, sizeof kernels); /* the names were logged as the parent's */
}

void kernel_print_stats(void)
{
	for (uint32_t i = 0; i < MAX_KERNELS; i++)
		if (kernels[i].launches)
			fprintf(stderr, "softgpu: %8lu x %s\n", (unsigned long)kernels[i].launches, kernels[i].name);
}
