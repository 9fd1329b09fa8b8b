#include "core/slots.h"

#include <stdint.h>
#include <string.h>

/*
 * The accepted form, byte for byte (Intel SDM vol. 2):
 *
 *   [f3 0f 1e fa]                 endbr64
 *   { 0f b6|b7 44 24 d8           movzx d8(%rsp), %eax       the same for one on the stack,
 *     89 44 24 d8 }               mov %eax, d8(%rsp)         such as the last of copy_on_engine
 *   48 8b 05 disp32               mov disp32(%rip), %rax     table's address
 *   { [40-4f] 0f b6|b7 modrm }    movzx reg, reg             bool and uint16_t arguments
 *   ff 60 disp8 | ff a0 disp32    jmp *disp(%rax)
 *
 * payload/test checks it against a real disassembler over every export.
 */
static const uint8_t *skip_endbr(const uint8_t *p)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	return memcmp(p, endbr64, sizeof endbr64) ? p : p + sizeof endbr64;
}

static const uint8_t *skip_stack_extensions(const uint8_t *p)
{
	for (int i = 0; i < 4; i++) {
		if (p[0] != 0x0f || (p[1] & 0xfe) != 0xb6 || p[2] != 0x44 || p[3] != 0x24 || p[5] != 0x89 || p[6] != 0x44 || p[7] != 0x24 ||
		    p[8] != p[4])
			break;
		p += 9;
	}
	return p;
}

static const uint8_t *skip_zero_extensions(const uint8_t *p)
{
	for (int i = 0; i < 6; i++) {
		const uint8_t *op = (*p & 0xf0) == 0x40 ? p + 1 : p;

		if (op[0] != 0x0f || (op[1] & 0xfe) != 0xb6 || op[2] >> 6 != 3)
			break;
		p = op + 3;
	}
	return p;
}

void **slot_decode(const void *stub)
{
	const uint8_t *p = skip_stack_extensions(skip_endbr(stub));
	int32_t disp;

	if (p[0] != 0x48 || p[1] != 0x8b || p[2] != 0x05)
		return NULL;
	memcpy(&disp, p + 3, sizeof disp);
	p += 7;
	uint8_t *const *table = (uint8_t *const *)(p + disp); /* relative to the next instruction */

	p = skip_zero_extensions(p);
	if (p[0] != 0xff)
		return NULL;
	if (p[1] == 0x60)
		disp = (int8_t)p[2];
	else if (p[1] == 0xa0)
		memcpy(&disp, p + 2, sizeof disp);
	else
		return NULL;
	if (!*table || disp < 0 || disp % (int32_t)sizeof(void *))
		return NULL;
	return (void **)(*table + disp);
}
