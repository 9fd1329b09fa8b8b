/*
 * SOFTGPU_MODE=no-locks: which instructions write into the rings, and which of them are locked.
 *
 * Memory behind PCIe takes no locked read-modify-write operation. Here the ring's pages can only be read by the
 * target; the engine has a mapping of its own. A thread that writes faults: the SIGSEGV handler looks at the
 * instruction, makes the page writable and sets the trap flag, and the SIGTRAP handler protects the page again
 * after that one instruction. Meanwhile other threads may write unseen: what is seen is a sample.
 *
 * A blocked SIGSEGV would kill the target, so that pthread_create() here starts threads with both signals
 * unblocked. A program cannot be run in this mode if it sets handlers for them later, or blocks them in a thread that runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "engine.h"

enum { PAGE = 4096, MAX_WRITERS = 1024, TRAP_FLAG = 0x100 };

/* An instruction that has written into a ring. */
static struct writer {
	uint64_t at, address;
	struct queue *queue;
	bool locked;
} writers[MAX_WRITERS];
static uint32_t writer_count;

static struct lock lock; /* among threads of the target */
static struct sigaction segv_before, trap_before;

/* The pages that this thread has opened for its next instruction, which may reach over a page's end. */
static __thread struct {
	uint8_t *page[2];
	unsigned count;
} opened __attribute__((tls_model("initial-exec")));

/* Read byte by byte: what follows the instruction may not be mapped. */
static bool is_locked(const uint8_t *code)
{
	static const uint8_t prefixes[] = { 0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65 };

	for (; *code == 0xf0 || memchr(prefixes, *code, sizeof prefixes); code++)
		if (*code == 0xf0)
			return true;
	if ((*code & 0xf0) == 0x40) /* REX */
		code++;
	return *code == 0x86 || *code == 0x87; /* XCHG, which locks with or without the prefix */
}

static bool covers(const struct queue *q, const uint8_t *address)
{
	const uint8_t *from = __atomic_load_n(&q->guarded, __ATOMIC_ACQUIRE);

	return from && address >= from && address < from + q->guarded_bytes;
}

static struct queue *queue_at(const uint8_t *address)
{
	for (unsigned i = 0; i < config.gpus; i++) {
		struct gpu *g = __atomic_load_n(&gpus[i], __ATOMIC_ACQUIRE);

		for (uint32_t s = 0; g && s < MAX_QUEUES; s++)
			if (covers(&g->queues[s], address))
				return &g->queues[s];
	}
	return NULL;
}

/* Caller holds the lock. */
static void note(uint64_t at, uint64_t address, struct queue *q)
{
	for (uint32_t i = 0; i < writer_count; i++)
		if (writers[i].at == at)
			return;
	if (writer_count == MAX_WRITERS)
		return;
	writers[writer_count] = (struct writer){ at, address, q, is_locked((const uint8_t *)at) };
	__atomic_store_n(&writer_count, writer_count + 1, __ATOMIC_RELEASE);
}

static void protect(uint8_t *page, int protection)
{
	raw3(SYS_mprotect, (long)page, PAGE, protection);
}

/* The handler that was there before, or what would have happened without one. */
static void pass_on(const struct sigaction *before, int sig, siginfo_t *info, void *context)
{
	if (before->sa_flags & SA_SIGINFO) {
		before->sa_sigaction(sig, info, context);
	} else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
		before->sa_handler(sig);
	} else {
		sigaction(sig, before, NULL);
		raw3(SYS_tgkill, raw3(SYS_getpid, 0, 0, 0), raw3(SYS_gettid, 0, 0, 0), sig);
	}
}

static void open_page(uint8_t *page)
{
	bool has = (opened.count && opened.page[0] == page) || (opened.count == 2 && opened.page[1] == page);

	if (!has && opened.count < 2)
		opened.page[opened.count++] = page;
	protect(page, PROT_READ | PROT_WRITE);
}

static void on_write(int sig, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint8_t *address = info->si_addr;
	struct queue *q;

	lock_take(&lock);
	q = info->si_code == SEGV_ACCERR ? queue_at(address) : NULL;
	if (q) {
		note((uint64_t)registers[REG_RIP], (uint64_t)address, q);
		open_page((uint8_t *)((uint64_t)address & ~(uint64_t)(PAGE - 1)));
		registers[REG_EFL] |= TRAP_FLAG;
	}
	lock_drop(&lock);
	if (!q)
		pass_on(&segv_before, sig, info, context);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	if (!opened.count || !(*flags & TRAP_FLAG)) { /* the signal's code is not always TRAP_TRACE in a virtual machine */
		pass_on(&trap_before, sig, info, context);
		return;
	}
	lock_take(&lock);
	while (opened.count) {
		uint8_t *page = opened.page[--opened.count];

		if (queue_at(page)) /* else the queue was destroyed meanwhile */
			protect(page, PROT_READ);
	}
	lock_drop(&lock);
	*flags &= ~TRAP_FLAG;
}

static bool handle(int sig, void (*handler)(int, siginfo_t *, void *), struct sigaction *before)
{
	struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

	sigfillset(&a.sa_mask);
	return !sigaction(sig, &a, before);
}

bool guard_ring(struct queue *q, uint8_t *target_has, size_t bytes)
{
	static bool installed;

	lock_take(&lock);
	installed = installed || (handle(SIGSEGV, on_write, &segv_before) && handle(SIGTRAP, on_step, &trap_before));
	if (installed) {
		q->guarded_bytes = bytes;
		__atomic_store_n(&q->guarded, target_has, __ATOMIC_RELEASE);
		mprotect(target_has, bytes, PROT_READ);
	}
	lock_drop(&lock);
	return installed;
}

/* The runtime may use the memory for something else now. */
void guard_end(struct queue *q)
{
	uint8_t *ring = q->guarded;

	if (!ring)
		return;
	lock_take(&lock);
	__atomic_store_n(&q->guarded, NULL, __ATOMIC_RELEASE);
	mprotect(ring, q->guarded_bytes, PROT_READ | PROT_WRITE);
	lock_drop(&lock);
}

/* By the engine. */
void guard_log(void)
{
	static uint32_t logged;

	for (; logged < __atomic_load_n(&writer_count, __ATOMIC_ACQUIRE); logged++) {
		const struct writer *w = &writers[logged];

		truth_note(w->queue, w->locked ? TRUTH_LOCKED : TRUTH_WRITER, w->at, w->address);
	}
}

void guard_forget_after_fork(void)
{
	lock = (struct lock){ 0 };
	opened.count = 0;
}

/* ---- threads start with both signals unblocked ---- */

struct start {
	void *(*routine)(void *);
	void *argument;
};

static void *begin(void *argument)
{
	struct start s = *(struct start *)argument;
	sigset_t both;

	free(argument);
	sigemptyset(&both);
	sigaddset(&both, SIGSEGV);
	sigaddset(&both, SIGTRAP);
	pthread_sigmask(SIG_UNBLOCK, &both, NULL);
	return s.routine(s.argument);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *), void *argument)
{
	__typeof__(&pthread_create) next = (__typeof__(&pthread_create))next_symbol("pthread_create");
	struct start *s;
	int err;

	if (!config.no_locks)
		return next(thread, attributes, routine, argument);
	s = malloc(sizeof *s);
	if (!s)
		return EAGAIN;
	*s = (struct start){ routine, argument };
	err = next(thread, attributes, begin, s);
	if (err)
		free(s);
	return err;
}
