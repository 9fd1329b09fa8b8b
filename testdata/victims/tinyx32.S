/* tinyx32.S: an x32 program without a libc: says "ready" and waits for input. */
	.equ X32, 0x40000000	/* __X32_SYSCALL_BIT */
	.globl _start
_start:
	mov $X32 + 1, %eax	/* write */
	mov $1, %edi
	mov $ready, %esi
	mov $6, %edx
	syscall
	mov $X32 + 0, %eax	/* read */
	xor %edi, %edi
	mov $letter, %esi
	mov $1, %edx
	syscall
	mov %eax, %edi
	mov $X32 + 60, %eax	/* exit */
	syscall
	.data
ready:	.ascii "ready\n"
letter:	.byte 0
	.section .note.GNU-stack, "", @progbits
