/*
 * stub.c: see stub.h. It follows the instructions from the function's entry on, and what its
 * registers hold:
 *
 *   {push, sub, saves of arguments}  call F  {restores}  mov d(%rax),%reg  ...  jmp *%reg
 *
 * where F returns the table; or, with F inlined, a test of the guard of its static variable,
 *
 *   {movzx guard(%rip),%eax ; test %al,%al | cmpb $0,guard(%rip)}  je|jne  mov T(%rip),%rax  jmp *d(%rax)
 *
 * where the branch is taken that the processor would take. An instruction outside of the
 * small set that compilers use here ends the attempt (Intel SDM vol. 2 for the encodings).
 */
#define _GNU_SOURCE
#include "core/stub.h"

#include <string.h>

#include "core/modules.h"

#define INSTRUCTIONS_MOST 64
#define BYTES_MOST 16 /* of an instruction that is read here: three prefixes, opcode, operand, constant */

enum content { NOTHING, TABLE_AT, TABLE, TABLE_BY_CALL, SLOT, BYTE };

/* What a register holds. value: TABLE_AT and TABLE: the address where the table's address is
 * stored; TABLE_BY_CALL: F; SLOT: the displacement; BYTE: the byte. */
struct content_of {
	enum content is;
	uint64_t value;
};

struct machine {
	const struct module *module;
	uint64_t at; /* the next instruction */
	uint8_t bytes[BYTES_MOST]; /* it; zeros where the segment has ended */
	size_t readable;
	struct content_of reg[16];
	struct content_of base; /* the table of the slot that was loaded */
	int zero;               /* the zero flag; -1: not known */
};

struct instruction {
	const uint8_t *next;
	uint8_t prefix, rex, op;
	bool two_bytes; /* 0f op */
	uint8_t mod, reg, rm;
	bool rip; /* the operand is at next + displacement */
	int64_t displacement;
};

enum outcome { GO_ON, DONE, FAILED };

static int32_t i32_at(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

/* Code runs in executable pages only. */
static bool fetch(struct machine *m)
{
	size_t n = module_extent(m->module, m->at, PF_R | PF_X);

	m->readable = n < BYTES_MOST ? n : BYTES_MOST;
	memset(m->bytes, 0, sizeof m->bytes);
	memcpy(m->bytes, (const void *)m->at, m->readable);
	return n;
}

/* The address that a pointer into bytes stands for. */
static uint64_t address_of(const struct machine *m, const uint8_t *p)
{
	return m->at + (uint64_t)(p - m->bytes);
}

static uint64_t operand_of(const struct machine *m, const struct instruction *i)
{
	return address_of(m, i->next) + (uint64_t)i->displacement;
}

static bool read_byte(const struct machine *m, uint64_t at, uint8_t *out)
{
	if (!module_extent(m->module, at, PF_R))
		return false;
	*out = *(const volatile uint8_t *)at;
	return true;
}

static bool is_endbr64(const uint8_t *p)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	return memcmp(p, endbr64, sizeof endbr64) == 0;
}

static void read_opcode(const uint8_t *p, struct instruction *i)
{
	*i = (struct instruction){0};
	if (*p == 0x3e) /* notrack */
		p++;
	if (*p == 0xf3 || *p == 0xf2 || *p == 0x66)
		i->prefix = *p++;
	if ((*p & 0xf0) == 0x40)
		i->rex = *p++;
	i->op = *p++;
	if (i->op == 0x0f) {
		i->two_bytes = true;
		i->op = *p++;
	}
	i->next = p;
}

/* False: the operand has an index register, or a base that is not followed. */
static bool read_operand(struct instruction *i)
{
	uint8_t modrm = *i->next++;

	i->mod = modrm >> 6;
	i->reg = (uint8_t)((modrm >> 3 & 7) | (i->rex & 4) << 1);
	i->rm = (uint8_t)((modrm & 7) | (i->rex & 1) << 3);
	if (i->mod == 3)
		return true;
	if ((modrm & 7) == 4 && *i->next++ != 0x24) /* (%rsp) only */
		return false;
	if (i->mod == 1) {
		i->displacement = (int8_t)*i->next++;
	} else if (i->mod == 2 || (modrm & 7) == 5) {
		i->rip = i->mod == 0;
		i->displacement = i32_at(i->next);
		i->next += 4;
	}
	return true;
}

static void set(struct machine *m, uint8_t reg, enum content is, uint64_t value)
{
	m->reg[reg] = (struct content_of){is, value};
}

static bool is_table(const struct content_of *c)
{
	return c->is == TABLE || c->is == TABLE_BY_CALL;
}

static enum outcome go_on_at(struct machine *m, const uint8_t *next, int32_t distance)
{
	if (next > m->bytes + m->readable)
		return FAILED;
	m->at = address_of(m, next) + (uint64_t)(int64_t)distance;
	return GO_ON;
}

static enum outcome branch(struct machine *m, const struct instruction *i, int32_t distance, const uint8_t *next)
{
	bool on_zero = (i->op & 1) == 0; /* je; else jne */

	if (m->zero < 0)
		return FAILED;
	return go_on_at(m, next, m->zero == on_zero ? distance : 0);
}

/* Whether it has no operand byte. */
static bool is_plain(const struct instruction *i)
{
	if (i->two_bytes)
		return (i->op & 0xfe) == 0x84; /* je, jne */
	return (i->op & 0xf0) == 0x50 || i->op == 0xe8 || i->op == 0xe9 || i->op == 0xeb || (i->op & 0xfe) == 0x74;
}

static enum outcome step_plain(struct machine *m, const struct instruction *i)
{
	const uint8_t *p = i->next;

	if (i->two_bytes)
		return branch(m, i, i32_at(p), p + 4);
	if ((i->op & 0xf0) == 0x50) { /* push, pop */
		if (i->op & 8)
			set(m, (uint8_t)((i->op & 7) | (i->rex & 1) << 3), NOTHING, 0);
		return go_on_at(m, p, 0);
	}
	switch (i->op) {
	case 0xe8: /* call: the table is what it returns */
		memset(m->reg, 0, sizeof m->reg);
		m->zero = -1;
		set(m, 0, TABLE_BY_CALL, address_of(m, p + 4) + (uint64_t)(int64_t)i32_at(p));
		return go_on_at(m, p + 4, 0);
	case 0xe9:
		return go_on_at(m, p + 4, i32_at(p));
	case 0xeb:
		return go_on_at(m, p + 1, (int8_t)*p);
	default:
		return branch(m, i, (int8_t)*p, p + 1);
	}
}

static void load_byte(struct machine *m, const struct instruction *i)
{
	uint8_t byte;

	set(m, i->reg, NOTHING, 0);
	if (i->rip && read_byte(m, operand_of(m, i), &byte))
		set(m, i->reg, BYTE, byte);
}

static enum outcome step_two_bytes(struct machine *m, const struct instruction *i)
{
	switch (i->op) {
	case 0x7e:
		if (i->prefix == 0x66 && i->mod == 3) /* to a general register */
			set(m, i->rm, NOTHING, 0);
		return GO_ON;
	case 0x10: case 0x11: case 0x28: case 0x29: case 0x6f: case 0x7f: case 0xd6:
		return GO_ON; /* moves of vector registers */
	case 0xb6: /* movzx, movsx */
		load_byte(m, i);
		return GO_ON;
	case 0xb7: case 0xbe: case 0xbf:
		set(m, i->reg, NOTHING, 0);
		return GO_ON;
	default:
		return FAILED;
	}
}

/* mov r/m, reg */
static void load(struct machine *m, const struct instruction *i)
{
	const struct content_of *from = &m->reg[i->rm];
	bool wide = i->rex & 8;

	if (i->mod == 3) {
		m->reg[i->reg] = *from;
	} else if (wide && i->rip) {
		set(m, i->reg, TABLE, operand_of(m, i));
	} else if (wide && from->is == TABLE_AT) {
		set(m, i->reg, TABLE, from->value + (uint64_t)i->displacement);
	} else if (wide && is_table(from)) {
		m->base = *from;
		set(m, i->reg, SLOT, (uint64_t)i->displacement);
	} else {
		set(m, i->reg, NOTHING, 0);
	}
}

/* jmp *reg, jmp *d(reg), call *d(reg) */
static enum outcome leave(struct machine *m, const struct instruction *i, struct stub *out)
{
	const struct content_of *c = &m->reg[i->rm];
	int64_t displacement = i->displacement;

	if ((i->reg & 7) != 4 && (i->reg & 7) != 2)
		return FAILED;
	if (i->mod == 3 && c->is == SLOT)
		displacement = (int64_t)c->value;
	else if (i->mod != 3 && !i->rip && is_table(c))
		m->base = *c;
	else
		return FAILED;
	if (displacement < 0 || displacement % (int64_t)sizeof(void *) || displacement > INT32_MAX)
		return FAILED;
	*out = (struct stub){.displacement = (uint32_t)displacement};
	if (m->base.is == TABLE)
		out->table_pointer = m->base.value;
	else
		out->table_function = m->base.value;
	return DONE;
}

/* add, sub, and ... with a constant of size bytes */
static enum outcome add_constant(struct machine *m, struct instruction *i, uint32_t size)
{
	if (i->mod != 3 || i->prefix == 0x66) /* a shorter constant */
		return FAILED;
	set(m, i->rm, NOTHING, 0);
	m->zero = -1;
	i->next += size;
	return GO_ON;
}

static enum outcome compare_guard(struct machine *m, struct instruction *i)
{
	uint8_t guard;

	if (!i->rip || (i->reg & 7) != 7 || *i->next++) /* cmpb $0, guard(%rip) */
		return FAILED;
	if (!read_byte(m, operand_of(m, i), &guard))
		return FAILED;
	m->zero = guard == 0;
	return GO_ON;
}

static enum outcome step_one_byte(struct machine *m, struct instruction *i, struct stub *out)
{
	const struct content_of *c = &m->reg[i->rm];

	switch (i->op) {
	case 0x31: /* xor */
		m->zero = -1;
		/* fall through */
	case 0x89: /* mov reg, r/m */
		if (i->mod == 3)
			m->reg[i->rm] = i->op == 0x89 ? m->reg[i->reg] : (struct content_of){0};
		return GO_ON;
	case 0x80:
		return compare_guard(m, i);
	case 0x81:
		return add_constant(m, i, 4);
	case 0x83: case 0xc1:
		return add_constant(m, i, 1);
	case 0x84: case 0x85: /* test */
		m->zero = i->mod == 3 && i->reg == i->rm && c->is == BYTE ? c->value == 0 : -1;
		return GO_ON;
	case 0x8a:
		load_byte(m, i);
		return GO_ON;
	case 0x8b:
		load(m, i);
		return GO_ON;
	case 0x8d: /* lea */
		set(m, i->reg, NOTHING, 0);
		if (i->rip)
			set(m, i->reg, TABLE_AT, operand_of(m, i));
		return GO_ON;
	case 0xff:
		return leave(m, i, out);
	default:
		return FAILED;
	}
}

static enum outcome step(struct machine *m, struct stub *out)
{
	struct instruction i;
	enum outcome done;

	if (!fetch(m))
		return FAILED;
	if (is_endbr64(m->bytes))
		return go_on_at(m, m->bytes + 4, 0);
	read_opcode(m->bytes, &i);
	if (is_plain(&i))
		return step_plain(m, &i);
	if (!read_operand(&i))
		return FAILED;
	done = i.two_bytes ? step_two_bytes(m, &i) : step_one_byte(m, &i, out);
	return done == FAILED || go_on_at(m, i.next, 0) == FAILED ? FAILED : done;
}

bool stub_decode(const struct module *module, const void *code, struct stub *out)
{
	struct machine m = {.module = module, .at = (uint64_t)code, .zero = -1};
	enum outcome done = GO_ON;

	for (int n = 0; n < INSTRUCTIONS_MOST && done == GO_ON; n++)
		done = step(&m, out);
	return done == DONE;
}

static uintptr_t table_of(const struct module *m, const struct stub *s, uintptr_t table_function)
{
	if (s->table_pointer)
		return module_has(m, s->table_pointer, PF_W) ? *(const uintptr_t *)s->table_pointer : 0;
	if (s->table_function != table_function || !module_has(m, table_function, PF_X))
		return 0;
	return ((uintptr_t (*)(void))table_function)();
}

_Atomic(uintptr_t) *stub_slot(const struct module *m, uintptr_t code, uintptr_t table_function)
{
	struct stub s;

	if (!stub_decode(m, (const void *)code, &s))
		return NULL;
	uintptr_t table = table_of(m, &s, table_function), slot = table + s.displacement;
	if (!table || !module_has(m, slot, PF_W) || !*(const uintptr_t *)slot)
		return NULL;
	return (_Atomic(uintptr_t) *)slot;
}
