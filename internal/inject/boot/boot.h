/*
 * boot.h: what the bootstrap code in the target and the tool share. Go reads
 * these structs through internal/inject/zboot.go, generated from this file.
 *
 *   RX mapping, one page     boot.bin, entered at its first byte
 *   RW mapping, right above  struct rtl_boot, the raw thread's stack, its TCB
 *
 * The tool fills both while the target runs; then it lets a parked thread make one raw
 * clone. The raw thread calls pthread_create and exits. The pthread creates two memfds and
 * serves commands. From then on the tool writes to those files only, never to the target's
 * memory: the pthread may give up and unmap all this at any time.
 */
#ifndef RTL_BOOT_H
#define RTL_BOOT_H

#include <stdint.h>

#define RTL_BOOT_MAGIC 0x544f4f422d4c5452ull /* "RTL-BOOT" */
#define RTL_BOOT_SHARED_SIZE 69632           /* bytes of struct rtl_boot_shared */

enum rtl_boot_phase {
	RTL_BOOT_NEW = 0,    /* no thread has run this code */
	RTL_BOOT_RAW = 1,    /* the raw thread is on its way to pthread_create */
	RTL_BOOT_THREAD = 2, /* the pthread runs */
	RTL_BOOT_READY = 3,  /* the files exist, and the pthread serves commands */
	RTL_BOOT_FAILED = 4, /* error and failed say why; no thread is left */
};

/* Which call failed. */
enum rtl_boot_failed {
	RTL_BOOT_NOTHING = 0,
	RTL_BOOT_PTHREAD_CREATE = 1,
	RTL_BOOT_MEMFD = 2,
	RTL_BOOT_TRUNCATE = 3,
	RTL_BOOT_SEAL = 4,
	RTL_BOOT_MMAP = 5,
};

/* At the start of the RW mapping. The tool writes it before the clone, and only reads it
 * afterwards. */
struct rtl_boot {
	uint64_t magic;
	uint64_t nonce; /* of this injection */
	uint32_t phase; /* enum rtl_boot_phase */
	uint32_t failed; /* enum rtl_boot_failed */
	int32_t error;  /* -errno of that call */
	uint32_t raw_alive; /* 1; the kernel clears it when the raw thread has ended */
	uint32_t thread_tid; /* the pthread, in the target's pid namespace */
	int32_t shared_fd;
	int32_t payload_fd;
	uint32_t armed_tid; /* the thread that is to make the clone, in the target's pid namespace; 0: none yet */
	uint32_t raw_tid; /* stored by the clone itself */
	uint32_t reserved;

	/* Written by the tool: */
	uint64_t tid_at; /* of the raw thread's struct pthread.tid */
	uint64_t map_start; /* RX and RW together */
	uint64_t map_bytes;
	uint64_t idle_ns; /* the pthread ends after this time without a command */
	uint64_t ctype_init; /* functions of libc; 0: it has none */
	uint64_t pthread_attr_init;
	uint64_t pthread_attr_setdetachstate;
	uint64_t pthread_create;
	uint64_t pthread_getspecific;
	uint64_t pthread_setspecific;
	uint64_t pthread_keys; /* __pthread_keys; 0: libc hides it */
	uint64_t call_tls_dtors;
	uint64_t dlopen;
	uint64_t dlsym;
	uint64_t dlerror;
	uint64_t munmap;

	uint64_t thread; /* pthread_t, for pthread_create */
	uint64_t attr[8]; /* pthread_attr_t is 56 bytes */
};

enum rtl_boot_command {
	RTL_BOOT_NONE = 0,    /* a sign of life */
	RTL_BOOT_LOAD = 1,    /* dlopen path: handle, or text */
	RTL_BOOT_RESOLVE = 2, /* dlsym(handle, name): address, or text */
	RTL_BOOT_CALL = 3,    /* address(env, env_len): result */
	RTL_BOOT_LEAVE = 4,   /* clean up and exit; not answered */
	RTL_BOOT_CALL_TEXT = 5, /* address(env, path): result */
	RTL_BOOT_WATCH = 6,   /* keep address: if the tool dies, the pthread calls address() before it leaves; 0: it does not */
};

/* The file "rtl-boot", shared by tool and pthread. The tool writes a command
 * with its arguments, increments command_seq and wakes its waiter; the pthread answers,
 * sets answer_seq to command_seq and wakes its waiter. */
struct rtl_boot_shared {
	uint64_t nonce;
	uint32_t command_seq; /* futex word */
	uint32_t answer_seq;  /* futex word */
	uint32_t command;     /* enum rtl_boot_command */
	int32_t result;
	uint64_t handle;
	uint64_t address;
	uint64_t env_bytes;
	char path[1024];
	char name[128];
	char text[1024];
	char pad[1872];
	unsigned char env[65536];
};

_Static_assert(sizeof(struct rtl_boot_shared) == RTL_BOOT_SHARED_SIZE, "whole pages");
_Static_assert(__builtin_offsetof(struct rtl_boot_shared, env) == 4096, "env on a page of its own");

#endif
