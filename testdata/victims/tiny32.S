/* tiny32.S: an i386 program without a libc: says "ready" and waits for input. */
	.globl _start
_start:
	movl $4, %eax		/* write */
	movl $1, %ebx
	movl $ready, %ecx
	movl $6, %edx
	int $0x80
	movl $3, %eax		/* read */
	xorl %ebx, %ebx
	movl $letter, %ecx
	movl $1, %edx
	int $0x80
	movl %eax, %ebx
	movl $1, %eax		/* exit */
	int $0x80
	.data
ready:	.ascii "ready\n"
letter:	.byte 0
	.section .note.GNU-stack, "", @progbits
