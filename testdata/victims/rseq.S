/*
 * int rseq_section(struct rseq *area, uint64_t rounds, uint64_t *harm)
 *
 * One restartable sequence that only counts. 1: it came to its end; 0: the
 * kernel made it stop, as it must whenever the thread was interrupted in it.
 * *harm grows when it came to its end with its descriptor taken away: somebody
 * has interrupted it and let it go on (rseq(2)).
 */
#define RSEQ_CS 8(%rdi)

	.section __rseq_cs, "aw"
	.balign 32
descriptor:
	.long 0, 0
	.quad .Lstart, .Lend - .Lstart, .Labort

	.text
	.globl rseq_section
	.type rseq_section, @function
rseq_section:
	.cfi_startproc
	lea descriptor(%rip), %rax
	mov %rax, RSEQ_CS
.Lstart:
	dec %rsi
	jnz .Lstart
	mov RSEQ_CS, %rcx
.Lend:
	cmp %rax, %rcx
	je 1f
	incq (%rdx)
1:	movq $0, RSEQ_CS
	mov $1, %eax
	ret
	.byte 0x0f, 0xb9, 0x3d /* ud1: with the signature below */
	.long 0x53053053       /* RSEQ_SIG */
.Labort:
	xor %eax, %eax
	ret
	.cfi_endproc
	.size rseq_section, .-rseq_section

	.section .note.GNU-stack, "", @progbits
