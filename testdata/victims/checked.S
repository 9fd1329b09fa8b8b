/*
 * long checked512(long nr, const long args[6], uint64_t *harm), checked256:
 *
 * Make a syscall with patterns in every register that the kernel must keep and
 * that is not an argument, in all vector and mask registers, in MXCSR, the x87
 * control word and one x87 register, and in the red zone, and add to *harm for
 * each that is different afterwards, arguments included.
 */
#define PATTERN $0x5aa55aa5c33cc33c
#define ZONE(n) -8*(n)(%rsp)

	.data
mxcsr_pattern:	.long 0x7fd5	/* truncate, denormals are zeros, all masked; three flags */
x87_pattern:	.word 0x0c7f	/* truncate, single precision, all masked */

	.macro HARM_UNLESS_EQUAL
	je 1f
	inc %r11
1:
	.endm

	.macro CHECKED name, wide
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.irp r, rbx,rbp,r12,r13,r14,r15,rdx,rsi
	push %\r
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %\r, 0
	.endr
	sub $16, %rsp		/* the caller's MXCSR and x87 control word */
	.cfi_adjust_cfa_offset 16
	stmxcsr (%rsp)
	fnstcw 4(%rsp)

	mov %rdi, %rax
	mov %rsi, %r11
	mov 0(%r11), %rdi
	mov 8(%r11), %rsi
	mov 16(%r11), %rdx
	mov 24(%r11), %r10
	mov 32(%r11), %r8
	mov 40(%r11), %r9

	ldmxcsr mxcsr_pattern(%rip)
	fldcw x87_pattern(%rip)
	fldpi
	movabs PATTERN, %rbx
	.irp r, rbp,r12,r13,r14,r15
	mov %rbx, %\r
	.endr
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16
	mov %rbx, ZONE(\n)
	.endr
	.if \wide
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	vpbroadcastq %rbx, %zmm\n
	.endr
	.irp n, 1,2,3,4,5,6,7
	kmovq %rbx, %k\n
	.endr
	.else
	vmovq %rbx, %xmm0
	vpbroadcastq %xmm0, %ymm0
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovdqa %ymm0, %ymm\n
	.endr
	.endif

	syscall

	xor %r11d, %r11d
	movabs PATTERN, %rcx
	.irp r, rbx,rbp,r12,r13,r14,r15
	cmp %rcx, %\r
	HARM_UNLESS_EQUAL
	.endr
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16
	cmp %rcx, ZONE(\n)
	HARM_UNLESS_EQUAL
	.endr
	mov 16(%rsp), %rbx	/* args */
	cmp 0(%rbx), %rdi
	HARM_UNLESS_EQUAL
	cmp 8(%rbx), %rsi
	HARM_UNLESS_EQUAL
	cmp 16(%rbx), %rdx
	HARM_UNLESS_EQUAL
	cmp 24(%rbx), %r10
	HARM_UNLESS_EQUAL
	cmp 32(%rbx), %r8
	HARM_UNLESS_EQUAL
	cmp 40(%rbx), %r9
	HARM_UNLESS_EQUAL
	.if \wide
	.irp n, 1,2,3,4,5,6,7
	kmovq %k\n, %rbx
	cmp %rcx, %rbx
	HARM_UNLESS_EQUAL
	.endr
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
	vpcmpneqq %zmm31, %zmm\n, %k1
	kortestw %k1, %k1
	HARM_UNLESS_EQUAL
	.endr
	vpbroadcastq %rcx, %zmm0
	vpcmpneqq %zmm31, %zmm0, %k1
	kortestw %k1, %k1
	HARM_UNLESS_EQUAL
	.else
	vmovq %xmm0, %rbx	/* ymm0 against the pattern, then all others against ymm0 */
	cmp %rcx, %rbx
	HARM_UNLESS_EQUAL
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vpxor %ymm0, %ymm\n, %ymm\n
	vptest %ymm\n, %ymm\n
	HARM_UNLESS_EQUAL
	.endr
	.endif

	stmxcsr ZONE(1)		/* whatever is below was looked at */
	mov mxcsr_pattern(%rip), %ebx
	cmp %ebx, ZONE(1)
	HARM_UNLESS_EQUAL
	fldpi
	fucomip %st(1), %st
	setnp %bl		/* not if the register was empty */
	sete %bh
	and %bl, %bh
	cmp $1, %bh
	HARM_UNLESS_EQUAL
	fstp %st(0)
	fnstcw ZONE(1)
	mov x87_pattern(%rip), %bx
	cmp %bx, ZONE(1)
	HARM_UNLESS_EQUAL
	ldmxcsr (%rsp)
	fldcw 4(%rsp)

	vzeroupper
	add $24, %rsp
	pop %rdx
	add %r11, (%rdx)
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret
	.cfi_endproc
	.size \name, .-\name
	.endm

	.text
	CHECKED checked512, 1
	CHECKED checked256, 0

/*
 * uint64_t spin512(uint64_t rounds), uint64_t spin256(uint64_t rounds): keep
 * the vector registers, the mask registers and the red zone alive over a loop
 * without any syscall; number of differences afterwards.
 */
	.globl spin512
	.type spin512, @function
spin512:
	.cfi_startproc
	movabs PATTERN, %rcx
	vpbroadcastq %rcx, %zmm0
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	vmovdqa64 %zmm0, %zmm\n
	.endr
	.irp n, 1,2,3,4,5,6,7
	kmovq %rcx, %k\n
	.endr
	.irp n, 1,4,8,12,16
	mov %rcx, ZONE(\n)
	.endr
1:	dec %rdi
	jnz 1b
	xor %eax, %eax
	.irp n, 1,2,3,4,5,6,7
	kmovq %k\n, %rdx
	cmp %rcx, %rdx
	je 2f
	inc %eax
2:
	.endr
	vpbroadcastq %rcx, %zmm0
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	vpcmpneqq %zmm0, %zmm\n, %k1
	kortestw %k1, %k1
	jz 2f
	inc %eax
2:
	.endr
	jmp .Lzone
	.cfi_endproc
	.size spin512, .-spin512

	.globl spin256
	.type spin256, @function
spin256:
	.cfi_startproc
	movabs PATTERN, %rcx
	vmovq %rcx, %xmm0
	vpbroadcastq %xmm0, %ymm0
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovdqa %ymm0, %ymm\n
	.endr
	.irp n, 1,4,8,12,16
	mov %rcx, ZONE(\n)
	.endr
1:	dec %rdi
	jnz 1b
	xor %eax, %eax
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vpxor %ymm0, %ymm\n, %ymm\n
	vptest %ymm\n, %ymm\n
	jz 2f
	inc %eax
2:
	.endr
.Lzone:
	.irp n, 1,4,8,12,16
	cmp %rcx, ZONE(\n)
	je 2f
	inc %eax
2:
	.endr
	vzeroupper
	ret
	.cfi_endproc
	.size spin256, .-spin256

	.section .note.GNU-stack, "", @progbits
