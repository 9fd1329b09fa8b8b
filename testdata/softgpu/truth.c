/* Writing the truth log (truth.h). Only the engine calls these: no lock, no malloc. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine.h"

enum {
	BUFFER_RECORDS = 680,         /* 64 KiB: a write of more would be seen as a slow GPU */
	MAX_VIOLATIONS_PER_QUEUE = 100,
};

static struct truth_record buffer[BUFFER_RECORDS];
static unsigned used;
static int log_fd = -1;
static uint32_t target_pid, last_name_id;

/* The shared lock is held until the log is complete; a reader that wants all of it asks for the exclusive one. */
void truth_open(void)
{
	target_pid = (uint32_t)(config.engine_thread ? raw3(SYS_getpid, 0, 0, 0) : raw3(SYS_getppid, 0, 0, 0));
	used = 0;
	if (!config.log_path)
		return;
	log_fd = (int)raw6(SYS_openat, AT_FDCWD, (long)config.log_path,
			   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644, 0, 0);
	if (log_fd >= 0)
		raw3(SYS_flock, log_fd, LOCK_SH, 0);
}

void truth_flush(void)
{
	const char *at = (const char *)buffer;
	size_t left = used * sizeof *buffer;

	while (left) {
		long n = raw3(SYS_write, log_fd, (long)at, (long)left);

		if (n <= 0)
			break; /* a full disk: the reader sees what is missing by its packet ids */
		at += n;
		left -= (size_t)n;
	}
	used = 0;
}

void truth_close(void)
{
	if (log_fd < 0)
		return;
	truth_flush();
	raw3(SYS_close, log_fd, 0, 0);
	log_fd = -1;
}

static struct truth_record *append(enum truth_kind kind)
{
	struct truth_record *t;

	if (log_fd < 0)
		return NULL;
	if (used == BUFFER_RECORDS)
		truth_flush();
	t = &buffer[used++];
	memset(t, 0, sizeof *t);
	t->magic = TRUTH_MAGIC;
	t->version = TRUTH_VERSION;
	t->kind = (uint8_t)kind;
	t->pid = target_pid;
	return t;
}

struct truth_record *truth_append(enum truth_kind kind, const struct queue *q)
{
	struct truth_record *t = append(kind);

	if (!t)
		return NULL;
	t->node = (uint16_t)q->gpu;
	t->engine_queue = q->id;
	t->queue = (uint64_t)q->amd;
	t->hsa_queue_id = q->hsa_id;
	return t;
}

uint32_t truth_name(const char *name)
{
	size_t length = strlen(name);

	if (!length)
		return 0;
	last_name_id++;
	for (size_t offset = 0; offset <= length; offset += TRUTH_NAME_PIECE) {
		struct truth_record *t = append(TRUTH_NAME);

		if (!t)
			break;
		t->name_id = last_name_id;
		t->name_offset = (uint32_t)offset;
		strncpy(t->name, name + offset, TRUTH_NAME_PIECE);
	}
	return last_name_id;
}

void truth_violation(struct queue *q, enum truth_violation code, uint64_t a, uint64_t b)
{
	if (q->violations++ < MAX_VIOLATIONS_PER_QUEUE)
		truth_note(q, code, a, b);
}

void truth_note(const struct queue *q, enum truth_violation code, uint64_t a, uint64_t b)
{
	struct truth_record *t = truth_append(TRUTH_VIOLATION, q);

	if (!t)
		return;
	t->flags = (uint16_t)code;
	t->packet = q->read;
	t->start_ns = now_ns();
	t->value[0] = a;
	t->value[1] = b;
}
