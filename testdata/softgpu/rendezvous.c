/*
 * SOFTGPU_RENDEZVOUS: kernels of several GPUs, of one or several processes, that wait for each other as those of
 * collectives do. A kernel whose name says that it is one ends on all GPUs at the same time: its own duration after
 * the last of its participants has started. The packet says who takes part: grid_size_y is how many GPUs do, and
 * grid_size_z, less 1, is the number of their group. The n-th such kernel of a group on each GPU belongs together.
 *
 * The file that the variable names is shared. It is mapped before the engine starts, which has no descriptors.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

enum { GROUPS = 16, MEETINGS = 1024, POLL_NS = 50000 };

/* Of every 1024th kernel of a group. Both only rise: no GPU begins a kernel before all have ended the one before. */
static struct meeting {
	uint64_t entered;
	uint64_t last_ns;
} (*meetings)[MEETINGS];

static uint64_t entered[MAX_GPUS][GROUPS]; /* by this process; a kernel's number */

__attribute__((constructor)) static void rendezvous_map(void)
{
	const char *path = getenv("SOFTGPU_RENDEZVOUS");
	size_t bytes = sizeof *meetings * GROUPS;
	void *memory;
	int fd;

	if (!path || !*path)
		return;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		perror(path);
		exit(2);
	}
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED) {
		perror(path);
		exit(2);
	}
	meetings = memory;
}

bool rendezvous_is(const struct kernel *k, const uint32_t grid[3])
{
	return meetings && grid[1] > 1 && grid[2] - 1 < GROUPS &&
	       (strstr(k->name, "ncclDevKernel") || strstr(k->name, "cross_device_reduce"));
}

/* The kernel starts at k->start_ns; its end is not known. */
void rendezvous_enter(unsigned gpu, struct running *k, uint64_t duration_ns)
{
	unsigned group = k->grid[2] - 1;
	struct meeting *m = &meetings[group][entered[gpu][group] % MEETINGS];
	uint64_t last = __atomic_load_n(&m->last_ns, __ATOMIC_RELAXED);

	k->meeting = m;
	k->quorum = (entered[gpu][group]++ / MEETINGS + 1) * k->grid[1];
	k->transfer_ns = duration_ns;
	k->end_ns = UINT64_MAX;
	while (last < k->start_ns &&
	       !__atomic_compare_exchange_n(&m->last_ns, &last, k->start_ns, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	__atomic_add_fetch(&m->entered, 1, __ATOMIC_SEQ_CST);
}

/* Sets the end of a kernel once the last GPU has started. */
void rendezvous_look(struct running *k, struct round *r)
{
	if (__atomic_load_n(&k->meeting->entered, __ATOMIC_SEQ_CST) < k->quorum) {
		round_due(r, r->now_ns + POLL_NS);
		return;
	}
	k->end_ns = __atomic_load_n(&k->meeting->last_ns, __ATOMIC_SEQ_CST) + k->transfer_ns;
	k->end_ns -= k->end_ns % TICK_NS;
	k->meeting = NULL;
}
