/*
 * entry.S: where the two threads begin and end. Position independent, without
 * relocations; linked first, so that byte 0 is rtl_boot_entry.
 */
#include <sys/syscall.h>

#define MAP_START 64 /* offsets in struct rtl_boot, asserted in boot.c */
#define MAP_BYTES 72
#define MUNMAP 176

	.section .text.entry, "ax"
	.globl rtl_boot_entry
	.hidden rtl_boot_entry
	.type rtl_boot_entry, @function
/* The raw thread: the `syscall; ret` of libc that made the clone returns here, on the new
 * stack. rbx is the parent's: struct rtl_boot *. */
rtl_boot_entry:
	xor %ebp, %ebp
	and $-16, %rsp
	mov %rbx, %rdi
	call rtl_boot_raw
	xor %edi, %edi
	mov $SYS_exit, %eax /* this thread alone; clears raw_alive */
	syscall
	hlt
	.size rtl_boot_entry, .-rtl_boot_entry

	.globl rtl_boot_thread_entry
	.hidden rtl_boot_thread_entry
	.type rtl_boot_thread_entry, @function
/* The pthread: void *start(void *). It ends with a tail call of libc's munmap, which frees
 * these instructions and then returns to the caller of this function, in libc. */
rtl_boot_thread_entry:
	push %rbx
	mov %rdi, %rbx
	call rtl_boot_thread
	mov MAP_START(%rbx), %rdi
	mov MAP_BYTES(%rbx), %rsi
	mov MUNMAP(%rbx), %rax
	pop %rbx
	jmp *%rax
	.size rtl_boot_thread_entry, .-rtl_boot_thread_entry

	.section .note.GNU-stack, "", @progbits
