/*
 * long checked_syscall(long nr, const long args[6], uint64_t *harm)
 *
 * Makes a syscall with patterns in every register that it must keep, in all
 * vector registers and in the red zone, and adds to *harm for each that is
 * different afterwards.
 */
#define PATTERN $0x5aa55aa5c33cc33c
#define ZONE(n) -8*(n)(%rsp)

	.text
	.globl checked_syscall
	.type checked_syscall, @function
checked_syscall:
	.cfi_startproc
	.irp r, rbx,rbp,r12,r13,r14,r15,rdx
	push %\r
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %\r, 0
	.endr

	mov %rdi, %rax
	mov %rsi, %r11
	mov 0(%r11), %rdi
	mov 8(%r11), %rsi
	mov 16(%r11), %rdx
	mov 24(%r11), %r10
	mov 32(%r11), %r8
	mov 40(%r11), %r9

	movabs PATTERN, %rbx
	mov %rbx, %rbp
	mov %rbx, %r12
	mov %rbx, %r13
	mov %rbx, %r14
	mov %rbx, %r15
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16
	mov %rbx, ZONE(\n)
	.endr
	vmovq %rbx, %xmm0
	vpbroadcastq %xmm0, %ymm0
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovdqa %ymm0, %ymm\n
	.endr

	syscall

	xor %r11d, %r11d
	movabs PATTERN, %rcx
	.irp r, rbx,rbp,r12,r13,r14,r15
	cmp %rcx, %\r
	je 1f
	inc %r11
1:
	.endr
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16
	cmp %rcx, ZONE(\n)
	je 1f
	inc %r11
1:
	.endr
	/* ymm0 against the pattern, then all others against ymm0 */
	vmovq %xmm0, %rbx
	cmp %rcx, %rbx
	je 1f
	inc %r11
1:
	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vpxor %ymm0, %ymm\n, %ymm\n
	vptest %ymm\n, %ymm\n
	jz 1f
	inc %r11
1:
	.endr
	vzeroupper
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
	.size checked_syscall, .-checked_syscall

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
