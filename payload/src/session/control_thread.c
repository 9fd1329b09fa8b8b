/* control_thread.c: the control block and the thread that answers through it. */
#define _GNU_SOURCE
#include "session/control_block.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/session_flags.h"
#include "core/threads.h"
#include "session/periods.h"
#include "session/session.h"

#define TIMER_SLACK_NS 1000 /* of the switches of a schedule; a dormant thread has no timer */
#define WATCH_NS (250 * NS_PER_MS) /* between two looks at a recorder's beat */

static struct mutex creating;

static void copy_build_id(const ElfW(Nhdr) *note, const char *end)
{
	while ((const char *)(note + 1) < end) {
		const char *name = (const char *)(note + 1);
		const char *id = name + ((note->n_namesz + 3) & ~3u);

		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
			control->build_id_len = note->n_descsz < RTL_BUILD_ID_MAX ? note->n_descsz : RTL_BUILD_ID_MAX;
			memcpy(control->build_id, id, control->build_id_len);
			return;
		}
		note = (const ElfW(Nhdr) *)(id + ((note->n_descsz + 3) & ~3u));
	}
}

/* The ELF header of this library; the linker defines the symbol. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static void describe_build(void)
{
	const char *base = (const char *)&__ehdr_start;
	const ElfW(Phdr) *ph = (const ElfW(Phdr) *)(base + __ehdr_start.e_phoff);

	for (int i = 0; i < __ehdr_start.e_phnum; i++)
		if (ph[i].p_type == PT_NOTE)
			copy_build_id((const ElfW(Nhdr) *)(base + ph[i].p_vaddr), base + ph[i].p_vaddr + ph[i].p_memsz);
}

static uint32_t command_seq(void)
{
	return __atomic_load_n(&control->command_seq, __ATOMIC_ACQUIRE); /* pairs with the tool's release */
}

static int run_command(uint32_t command)
{
	static char env[RTL_ENV_MAX]; /* a copy: the tool can change the buffer */
	uint32_t len = __atomic_load_n(&control->env_len, __ATOMIC_RELAXED); /* read once: the value that is checked is the one that is used */

	switch (command) {
	case RTL_COMMAND_PING:
		return 0;
	case RTL_COMMAND_REATTACH:
		if (len > RTL_ENV_MAX)
			return control_fail(-EINVAL, "environment buffer of %u bytes, at most %u", len, RTL_ENV_MAX);
		memcpy(env, (const char *)control + RTL_ENV_OFFSET, len);
		return session_arm(env, len);
	case RTL_COMMAND_DETACH:
		return session_disarm(control->argument == RTL_END_OTHER_TOOL ? RTL_END_OTHER_TOOL : RTL_END_DETACH);
	case RTL_COMMAND_START:
		return periods_start();
	case RTL_COMMAND_DISABLE:
	case RTL_COMMAND_ENABLE:
		return periods_switch(command == RTL_COMMAND_ENABLE);
	default:
		return control_fail(-EINVAL, "unknown command %u", command);
	}
}

static void answer(uint32_t seq, int result)
{
	control->result = result;
	__atomic_store_n(&control->answer_seq, seq, __ATOMIC_RELEASE);
	futex_wake_shared(&control->answer_seq);
}

/* The recorder's beat is a counter, whose changes this thread times by its own clock. The
 * time between two looks counts as one sleep at most: after a machine was suspended, the
 * recorder may run later than this thread. */
static void watch_recorder(void)
{
	static uint64_t beat, looked_ns, silent_ns;
	static uint32_t generation;
	uint64_t now = now_monotonic(), seen = __atomic_load_n(&control->recorder.beat, __ATOMIC_RELAXED);
	uint64_t passed = now - looked_ns;

	looked_ns = now;
	silent_ns += passed < WATCH_NS ? passed : WATCH_NS;
	if (seen != beat || (generation != atomic_load(&session_flags.generation) && !periods_are_on())) {
		beat = seen;
		silent_ns = 0;
	}
	generation = atomic_load(&session_flags.generation);
	if (silent_ns > config.recorder_timeout_ms * NS_PER_MS)
		session_disarm_orphan(generation);
}

static bool is_watched(void)
{
	return control_state() == RTL_STATE_ACTIVE || control_state() == RTL_STATE_OFF || session_is_unfinished();
}

static uint32_t watching; /* the control thread wakes by itself to look at the recorder */

static void *run(void *unused)
{
	prctl(PR_SET_NAME, "rtl-control");
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	uint32_t done = __atomic_load_n(&control->answer_seq, __ATOMIC_RELAXED);
	for (;;) {
		uint32_t seq = command_seq();
		/* Without a session there is no recorder: sleeps until a command comes. */
		bool watch = is_watched();

		if (seq != done && !TEST_KNOB(wedge_control)) {
			answer(seq, run_command(control->command));
			done = seq;
			continue;
		}
		uint64_t turn_ns = periods_turn();
		if (!turn_ns)
			continue;
		__atomic_store_n(&watching, watch, __ATOMIC_RELEASE);
		futex_wait_shared(&control->command_seq, seq, watch && turn_ns > WATCH_NS ? WATCH_NS : turn_ns);
		if (is_watched())
			watch_recorder();
	}
	return unused;
}

/* The control thread may have seen no session yet, and be about to sleep without a deadline:
 * wakes it until it watches. */
void control_watch(void)
{
	for (int i = 0; i < 100 && sys_gettid() != control_tid(); i++) {
		if (__atomic_load_n(&watching, __ATOMIC_ACQUIRE))
			return;
		futex_wake_shared(&control->command_seq);
		sys_sleep_ns(NS_PER_MS);
	}
}

static int create(void)
{
	struct memfd file;
	struct rtl_control *c = memfd_map(RTL_CONTROL_NAME, RTL_CONTROL_SIZE, &file);

	if (!c)
		return -errno;
	control = c;
	counters = (struct rtl_counters *)((char *)c + RTL_COUNTERS_OFFSET);
	c->abi_version = RTL_ABI_VERSION;
	c->size_bytes = RTL_CONTROL_SIZE;
	c->pid = (uint32_t)syscall(SYS_getpid);
	c->control_fd = file.fd;
	c->ring_fd = -1;
	describe_build();
	rtl_env_defaults(&config);
	__atomic_store_n(&c->magic, RTL_CONTROL_MAGIC, __ATOMIC_RELEASE); /* last: now it may be found */
	return 0;
}

bool control_is_inherited(void)
{
	return control && !is_original_process();
}

static uint32_t thread_tid;

/* There is no session without the thread, which notices a dead recorder. */
static int start_thread(void)
{
	static pthread_t thread;
	uint32_t tid;

	if (control_tid())
		return 0;
	int r = session_step("thread");
	if (r)
		return r;
	if ((r = thread_start(&thread, run, &tid)))
		return control_fail(r, "no control thread: %s", thread_error(r));
	__atomic_store_n(&thread_tid, tid, __ATOMIC_RELEASE);
	__atomic_store_n(&control->control_tid, tid, __ATOMIC_RELEASE);
	return 0;
}

int control_create(void)
{
	int r = 0;

	if (control_is_inherited())
		return -ECHILD;
	if (mutex_lock(&creating, NS_PER_S))
		return -EBUSY;
	/* The page first: by it a forked child knows that the block is not its own. */
	if (!(r = session_own()) && !control && !(r = fault_at("block")))
		r = create();
	if (!r)
		r = start_thread();
	mutex_unlock(&creating);
	return r;
}

int control_tid(void)
{
	return (int)__atomic_load_n(&thread_tid, __ATOMIC_ACQUIRE);
}
