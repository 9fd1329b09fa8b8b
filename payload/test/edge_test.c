/*
 * edge_test [WORD]: rare interleavings, step by step. The payload's own arm.c and disarm.c
 * begin and end sessions; edge_toys.c replaces slots, grace period and runtime. Each case
 * runs in a process of its own, and a case that hangs fails. WORD: only cases whose names
 * contain it.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

#define HANGS_AFTER_S 180 /* also on a machine with much else to do */

/* In a process of its own: its exit status, or the signal that ended it. */
static int run(const struct edge_case *c)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		alarm(HANGS_AFTER_S);
		set_up();
		c->run();
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

static int run_all(const struct edge_case *c, const char *word, int *failed)
{
	int count = 0;

	for (; c->name; c++) {
		if (word && !strstr(c->name, word))
			continue;
		int status = run(c);

		count++;
		if (!status)
			continue;
		printf("%s: %s\n", c->name, WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hangs" : "failed");
		++*failed;
	}
	return count;
}

#define KINDS_MAX 16
static const struct edge_case *of_kinds[KINDS_MAX];
static unsigned of_kinds_count;

void edge_add(const struct edge_case *cases)
{
	CHECK(of_kinds_count < KINDS_MAX);
	of_kinds[of_kinds_count++] = cases;
}

int main(int argc, char **argv)
{
	const struct edge_case *rooms[] = {queue_cases, ring_cases, gpu_cases, session_cases, signal_cases, shared_cases,
					   copy_cases, runtime_cases, hostile_cases, memory_cases, held_cases, kernel_cases, full_cases};
	int failed = 0, count = 0;

	for (unsigned i = 0; i < sizeof rooms / sizeof *rooms; i++)
		count += run_all(rooms[i], argc > 1 ? argv[1] : NULL, &failed);
	for (unsigned i = 0; i < of_kinds_count; i++)
		count += run_all(of_kinds[i], argc > 1 ? argv[1] : NULL, &failed);
	printf("edge_test: %d cases, %d failures\n", count, failed);
	return failed != 0;
}
