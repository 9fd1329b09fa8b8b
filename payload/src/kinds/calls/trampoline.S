# trampoline.S: one wrapper for all functions whose calls are recorded.
#
#   call_trampolines + 16 * i   is put into the slot of function i (functions.def)
#   call_hooks[i].next          the function behind it
#   call_stack_words[i]         how many 8-byte words of its arguments are on the stack
#   *lanes_gate                 0: nothing is recorded, and the call passes through
#
# A call is recorded when it returns, by call_leave(). Only general registers change, here and in
# call_leave(): vector and x87 registers keep their arguments and results. r11 is the only register
# that is not saved. The ABI gives it to no argument; r10 may be a static chain, and rax the number
# of vector registers with arguments.
#
# The frame is an ordinary rbp frame with unwind information for each instruction, so exceptions,
# pthread_cancel, backtraces and debuggers pass. The return address is never replaced, so shadow
# stacks stay right. endbr64: these are targets of indirect jumps.

#include "kinds/calls/trampoline.h"

# struct call, below the saved rbp (trampoline.h)
	.set	START, -96
	.set	ARG0,  -88
	.set	ARG1,  -80
	.set	ARG2,  -72
	.set	ARG3,  -64
	.set	ARG4,  -56
	.set	ARG5,  -48
	.set	INDEX, -40
	.set	GATE,  -36
	.set	RET,   -32
	.set	RET2,  -24
	.set	RAX,   -16
	.set	END,   -8
	.set	FRAME, 96

# Threads may be in this text for hours (hsa_signal_wait): it is outside of the range that an
# arming waits for (session/arm.c).
	.section .text.calls, "ax", @progbits
	.globl	call_trampolines, call_text_begin, call_text_end
	.hidden	call_trampolines, call_text_begin, call_text_end
	.p2align 6
call_text_begin:
	.type	call_trampolines, @function
call_trampolines:
	.cfi_startproc
	.set	i, 0
	.rept	CALL_FUNCTIONS_MAX
	.p2align 4
	endbr64
	movl	$i, %r11d
	jmp	call_common
	.set	i, i + 1
	.endr
	.cfi_endproc
	.size	call_trampolines, . - call_trampolines

	.p2align 6
	.type	call_common, @function
call_common:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$FRAME, %rsp
	movq	%rax, RAX(%rbp)
	movq	lanes_gate(%rip), %rax
	movl	(%rax), %eax
	testl	%eax, %eax
	je	.Lpass
	movl	%eax, GATE(%rbp)
	movq	%rdi, ARG0(%rbp)
	movq	%rsi, ARG1(%rbp)
	movq	%rdx, ARG2(%rbp)
	movq	%rcx, ARG3(%rbp)
	movq	%r8, ARG4(%rbp)
	movq	%r9, ARG5(%rbp)
	movl	%r11d, INDEX(%rbp)
	cmpl	$0, call_by_boottime(%rip)
	jne	.Lask_start
	rdtsc
	shlq	$32, %rdx
	orq	%rdx, %rax
.Lstarted:
	movq	%rax, START(%rbp)
	leaq	call_stack_words(%rip), %rax
	movzbl	(%rax,%r11), %ecx
	testl	%ecx, %ecx
	jne	.Lcopy
.Lcall:
	imulq	$CALL_HOOK_BYTES, %r11
	leaq	call_hooks(%rip), %rax
	movq	(%rax,%r11), %r11
	movq	ARG2(%rbp), %rdx
	movq	ARG3(%rbp), %rcx
	movq	RAX(%rbp), %rax
	call	*%r11
	movq	%rax, RET(%rbp)
	movq	%rdx, RET2(%rbp)
	cmpl	$0, call_by_boottime(%rip)
	jne	.Lask_end
	rdtsc
	shlq	$32, %rdx
	orq	%rdx, %rax
.Lended:
	movq	%rax, END(%rbp)
	leaq	-FRAME(%rbp), %rdi
	movq	%rdi, %rsp
	call	call_leave
	movq	RET(%rbp), %rax
	movq	RET2(%rbp), %rdx
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	.cfi_same_value %rbp
	ret
	.cfi_restore_state
.Lask_start:			# machines without a stable time-stamp counter
	movq	%r10, RET(%rbp)
	call	call_now
	movq	RET(%rbp), %r10
	movq	ARG0(%rbp), %rdi
	movq	ARG1(%rbp), %rsi
	movq	ARG4(%rbp), %r8
	movq	ARG5(%rbp), %r9
	movl	INDEX(%rbp), %r11d
	jmp	.Lstarted
.Lask_end:			# the callee may have left the words of its arguments on the stack
	leaq	-FRAME(%rbp), %rsp
	call	call_now
	jmp	.Lended
.Lcopy:				# the caller's words begin at 16(%rbp); rsp stays a multiple of 16
	movl	%ecx, %eax
	andl	$1, %eax
	shll	$3, %eax
	subq	%rax, %rsp
1:	pushq	8(%rbp,%rcx,8)
	decl	%ecx
	jne	1b
	jmp	.Lcall
.Lpass:
	imulq	$CALL_HOOK_BYTES, %r11
	leaq	call_hooks(%rip), %rax
	movq	(%rax,%r11), %r11
	movq	RAX(%rbp), %rax
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_same_value %rbp
	jmp	*%r11
	.cfi_endproc
	.size	call_common, . - call_common
call_text_end:

	.section .note.GNU-stack, "", @progbits
