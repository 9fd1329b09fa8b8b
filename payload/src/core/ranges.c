#define _GNU_SOURCE
#include "core/ranges.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

/* Encodings of .eh_frame_hdr that every linker in use writes (LSB Core, 10.6.2). */
#define ENC_TABLE 0x3b /* relative to the section, signed 4 bytes */
#define ENC_COUNT 0x03 /* unsigned 4 bytes */
#define ENC_FRAME 0x1b /* relative to itself, signed 4 bytes */

struct search {
	uint64_t address;
	struct rtl_range text;
	const uint8_t *hdr; /* PT_GNU_EH_FRAME */
	size_t hdr_size;
	bool found;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *s = data;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uint64_t lo = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_GNU_EH_FRAME) {
			s->hdr = (const uint8_t *)lo;
			s->hdr_size = ph->p_memsz;
		}
		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X) && s->address >= lo && s->address < lo + ph->p_memsz) {
			s->text = (struct rtl_range){lo, lo + ph->p_memsz};
			s->found = true;
		}
	}
	if (!s->found)
		s->hdr = NULL;
	return s->found;
}

static int32_t i32_at(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

/* The FDE that may cover the address: the last table row at or below it. */
static const uint8_t *last_fde_below(const struct search *s)
{
	const uint8_t *h = s->hdr;

	if (!h || s->hdr_size < 12 || h[0] != 1 || h[1] != ENC_FRAME || h[2] != ENC_COUNT || h[3] != ENC_TABLE)
		return NULL;
	uint32_t rows = (uint32_t)i32_at(h + 8);
	if (rows == 0 || (s->hdr_size - 12) / 8 < rows)
		return NULL;
	const uint8_t *table = h + 12;
	uint32_t lo = 0, hi = rows; /* first row above the address */

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if ((uint64_t)(h + i32_at(table + 8 * mid)) <= s->address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? h + i32_at(table + 8 * (lo - 1) + 4) : NULL;
}

/* FDE: u32 length, u32 CIE pointer, initial location, length of the range. */
static bool fde_range(const uint8_t *fde, uint64_t address, struct rtl_range *out)
{
	if (!fde || (uint32_t)i32_at(fde) < 12 || (uint32_t)i32_at(fde) == UINT32_MAX)
		return false;
	uint64_t lo = (uint64_t)(fde + 8 + i32_at(fde + 8));
	uint64_t hi = lo + (uint32_t)i32_at(fde + 12);

	if (address < lo || address >= hi)
		return false;
	*out = (struct rtl_range){lo, hi};
	return true;
}

bool range_of(const void *address, struct rtl_range *out, bool *exact)
{
	struct search s = {.address = (uint64_t)address};

	dl_iterate_phdr(visit, &s);
	if (!s.found)
		return false;
	*exact = fde_range(last_fde_below(&s), s.address, out);
	if (!*exact)
		*out = (struct rtl_range){s.address, s.address + RTL_PAGE};
	return true;
}

bool text_of(const void *address, struct rtl_range *out)
{
	struct search s = {.address = (uint64_t)address};

	dl_iterate_phdr(visit, &s);
	if (s.found)
		*out = s.text;
	return s.found;
}
