/* got.c: see got.h. All of it runs in callbacks of dl_iterate_phdr, where objects stay mapped. */
#define _GNU_SOURCE
#include "kinds/calls/got.h"

#include <elf.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi.h"
#include "core/modules.h"
#include "core/sys.h"
#include "kinds/calls/find.h"
#include "kinds/calls/trampoline.h"

#define ENTRIES_MOST 16384
#define LOOK_NS (100 * NS_PER_MS)
#define LOOKS_FOR_ENTRIES 10 /* so often, the known entries are looked at */

struct entry {
	_Atomic(uintptr_t) *at;
	uintptr_t before; /* the function, or the object's own stub that binds it at the first call */
	uintptr_t base;   /* of the object */
	uint32_t function;
	bool read_only;
};

static struct entry *entries; /* ENTRIES_MOST; made once */
static uint32_t entry_count;
static struct got_tally tally;
static uint64_t next_look_ns;
static uint32_t looks;
static _Atomic bool is_left; /* the process ends */
static _Atomic bool patching; /* cleared before the entries are restored: the worker, which may come later, patches no more */
static unsigned long long objects_loaded; /* dlpi_adds when the objects were looked at last */

static bool store(const struct entry *e, uintptr_t from, uintptr_t to)
{
	void *page = (void *)((uintptr_t)e->at & ~(RTL_PAGE - 1ul));

	if (e->read_only && mprotect(page, RTL_PAGE, PROT_READ | PROT_WRITE))
		return false;
	bool stored = atomic_compare_exchange_strong(e->at, &from, to);
	if (e->read_only)
		mprotect(page, RTL_PAGE, PROT_READ);
	return stored;
}

/*
 * A page that the loader makes read-only, and has not yet: it is still relocating the object,
 * in another thread, and would fault if we made the page read-only. The kernel tells: it ORs 0
 * to the word, if that can be written.
 */
static bool is_being_relocated(const _Atomic(uintptr_t) *at)
{
	uint32_t none = 0;

	return syscall(SYS_futex, &none, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, at, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

static struct entry *known(const _Atomic(uintptr_t) *at, uintptr_t base)
{
	for (uint32_t i = 0; i < entry_count; i++)
		if (entries[i].at == at && entries[i].base == base)
			return &entries[i];
	return NULL;
}

/* An object's own code that has the loader bind an entry at the first call: [endbr64] push …. Any other
 * function of the object is what the program, or a tool in it, wants to be called instead. */
static bool is_binding_stub(const struct module *m, uintptr_t address)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa}, push_number = 0x68, push_r11[] = {0x41, 0x53};
	const uint8_t *code = (const uint8_t *)address;

	if (module_extent(m, address, PF_X) < sizeof endbr64 + sizeof push_r11)
		return false;
	if (!memcmp(code, endbr64, sizeof endbr64))
		code += sizeof endbr64;
	return *code == push_number || !memcmp(code, push_r11, sizeof push_r11);
}

static void patch_entry(const struct module *m, _Atomic(uintptr_t) *at, uint32_t function)
{
	uintptr_t now = atomic_load(at), ours = call_trampoline(function);
	uintptr_t target = atomic_load(&call_hooks[function].next);

	struct entry *e = known(at, m->base);

	if (now == ours && e)
		return;
	/* Ours: an earlier session could not restore it. Anything else is another tool's function, or
	 * another library's. */
	if (now != ours && now != target && !is_binding_stub(m, now))
		return;
	bool read_only = module_protects(m, (uintptr_t)at);
	if (read_only && is_being_relocated(at)) {
		objects_loaded = 0; /* at the next look */
		return;
	}
	if (!e && entry_count == ENTRIES_MOST) {
		tally.dropped++;
		return;
	}
	bool is_first = !e;
	if (is_first)
		e = &entries[entry_count];
	*e = (struct entry){.at = at, .before = now == ours ? target : now, .base = m->base, .function = function, .read_only = read_only};
	if (now == ours || store(e, now, ours))
		entry_count += is_first;
	else
		tally.dropped++;
}

static bool patch_relocations(const struct module *m, const ElfW(Rela) *relocations, size_t count)
{
	uint32_t before = entry_count;

	for (size_t i = 0; i < count; i++) {
		const ElfW(Rela) *r = &relocations[i];
		uint32_t type = ELF64_R_TYPE(r->r_info), symbol = ELF64_R_SYM(r->r_info);

		if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) || r->r_addend)
			continue;
		/* An object's calls of a function of its own by that name are none of the library's. */
		if (m->symbols[symbol].st_shndx != SHN_UNDEF)
			continue;
		int function = symbol ? call_imported(m->strings + m->symbols[symbol].st_name) : -1;
		/* A library's calls of itself are part of the call that made them. */
		if (function >= 0 && m->base != call_library_base((uint32_t)function))
			patch_entry(m, (_Atomic(uintptr_t) *)(m->base + r->r_offset), (uint32_t)function);
	}
	return entry_count != before;
}

static int patch_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct module m;

	(void)size, (void)data;
	if (!atomic_load(&patching))
		return 1;
	if (!module_read(info, &m) || module_has(&m, (uintptr_t)call_trampolines, PF_X))
		return 0;
	bool some = patch_relocations(&m, m.relocations[0], m.relocation_count[0]);
	some |= patch_relocations(&m, m.relocations[1], m.relocation_count[1]);
	tally.modules += some;
	return 0;
}

static int note_loaded(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(unsigned long long *)data = info->dlpi_adds;
	return 1;
}

static void look_at_all(void)
{
	dl_iterate_phdr(note_loaded, &objects_loaded);
	dl_iterate_phdr(patch_object, NULL);
}

void got_patch(void)
{
	if (!entries && !(entries = map_memory(ENTRIES_MOST * sizeof *entries)))
		return;
	entry_count = 0;
	tally = (struct got_tally){0};
	atomic_store(&patching, true);
	look_at_all();
}

/* A thread that just called a function for the first time may have overwritten our entry with the
 * function's address. */
static int patch_again(struct dl_phdr_info *info, size_t size, void *data)
{
	struct module m;

	(void)size, (void)data;
	if (!atomic_load(&patching))
		return 1;
	if (!module_read(info, &m))
		return 0;
	for (struct entry *e = entries; e < entries + entry_count; e++) {
		uintptr_t target = atomic_load(&call_hooks[e->function].next);

		if (e->base == m.base && !e->read_only && module_has(&m, (uintptr_t)e->at, PF_W) && atomic_load(e->at) == target)
			store(e, target, call_trampoline(e->function));
	}
	return 0;
}

void got_patch_new(uint64_t now_ns)
{
	unsigned long long loaded = 0;

	if (now_ns < next_look_ns || !entries)
		return;
	dl_iterate_phdr(note_loaded, &loaded);
	next_look_ns = now_ns + LOOK_NS;
	if (loaded != objects_loaded)
		look_at_all();
	else if (++looks % LOOKS_FOR_ENTRIES == 0)
		dl_iterate_phdr(patch_again, NULL);
}

static int restore_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct module m;

	(void)size, (void)data;
	if (!module_read(info, &m))
		return 0;
	for (struct entry *e = entries; e < entries + entry_count; e++)
		if (e->base == m.base && module_has(&m, (uintptr_t)e->at, PF_W) && atomic_load(e->at) == call_trampoline(e->function))
			store(e, call_trampoline(e->function), e->before);
	return 0;
}

void got_leave(void)
{
	atomic_store(&is_left, true);
	atomic_store(&patching, false);
}

void got_restore(void)
{
	if (atomic_load(&is_left))
		return;
	atomic_store(&patching, false);
	dl_iterate_phdr(restore_object, NULL); /* waits for the worker, if it is in patch_object() */
	entry_count = 0;
}

struct got_tally got_tally(void)
{
	struct got_tally t = tally;

	t.entries = entry_count;
	return t;
}
