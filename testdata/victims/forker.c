/* forker.c: a GPU process that forks while it works. On standard input: "f"
 * forks a child that works on memory of its own and exits, "k" one that stays
 * until "e"; "n" tells how many packets ran; "x" executes the program again; end
 * of file ends it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <hsa/hsa.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING 256

static hsa_queue_t *queue;
static hsa_signal_t done;
static atomic_ulong ran;
static atomic_bool stop;

static void check(hsa_status_t s, const char *what)
{
	if (s != HSA_STATUS_SUCCESS) {
		fprintf(stderr, "%s: %#x\n", what, (unsigned)s);
		exit(1);
	}
}

static hsa_status_t take_gpu(hsa_agent_t agent, void *to)
{
	hsa_device_type_t type;

	check(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type), "device type");
	if (type != HSA_DEVICE_TYPE_GPU)
		return HSA_STATUS_SUCCESS;
	*(hsa_agent_t *)to = agent;
	return HSA_STATUS_INFO_BREAK;
}

/* A barrier packet with a signal: all that the queue functions need. */
static void run_packet(void)
{
	uint64_t i = hsa_queue_add_write_index_screlease(queue, 1);
	hsa_barrier_and_packet_t *p = (hsa_barrier_and_packet_t *)queue->base_address + i % RING;

	hsa_signal_store_relaxed(done, 1);
	memset((char *)p + 2, 0, sizeof *p - 2);
	p->completion_signal = done;
	__atomic_store_n(&p->header, HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)i);
	while (hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) >= 1)
		;
	atomic_fetch_add(&ran, 1);
}

static void *work(void *unused)
{
	while (!atomic_load(&stop)) {
		run_packet();
		usleep(500);
	}
	return unused;
}

/* The runtime's queues and signals are not inherited (MADV_DONTFORK): without
 * any tool a child that touches them dies. All else must work. */
static int look_around(void)
{
	size_t sum = 0;

	for (size_t n = 16; n < 1 << 20; n *= 2) {
		char *p = malloc(n);

		memset(p, 1, n);
		sum += (size_t)p[n - 1];
		free(p);
	}
	return sum == 16 ? 0 : 1;
}

static pid_t spawn(int wait_for)
{
	pid_t child = fork();
	char c;

	if (child)
		return child;
	alarm(240); /* below the limit of the tests */
	if (wait_for >= 0 && read(wait_for, &c, 1) != 1)
		exit(3);
	exit(look_around()); /* runs the exit handlers that the parent has */
}

static void await_child(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		status = -1;
	printf("child %#x\n", (unsigned)status);
}

static int stay[2]; /* what the child that stays reads from */
static pid_t staying;

static void keep_one(void)
{
	if (pipe2(stay, O_CLOEXEC))
		exit(1);
	staying = spawn(stay[0]);
	printf("kept %d\n", staying);
}

static void end_kept(void)
{
	if (write(stay[1], "", 1) != 1)
		exit(1);
	await_child(staying);
	close(stay[0]);
	close(stay[1]);
}

static void answer(void)
{
	for (int c; (c = getchar()) != EOF;) {
		if (c == 'f')
			await_child(spawn(-1));
		else if (c == 'k')
			keep_one();
		else if (c == 'e')
			end_kept();
		else if (c == 'x')
			execl("/proc/self/exe", "forker", NULL);
		else if (c == 'n')
			printf("ran %lu\n", atomic_load(&ran));
		fflush(stdout);
	}
}

int main(void)
{
	hsa_agent_t gpu = {0};
	pthread_t thread;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	check(hsa_init(), "hsa_init");
	hsa_iterate_agents(take_gpu, &gpu);
	check(hsa_queue_create(gpu, RING, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue), "queue");
	check(hsa_signal_create(0, 0, NULL, &done), "signal");
	pthread_create(&thread, NULL, work, NULL);
	printf("ready pid=%d port=0\n", getpid());
	fflush(stdout);
	answer();
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	check(hsa_queue_destroy(queue), "destroy");
	check(hsa_signal_destroy(done), "destroy signal");
	check(hsa_shut_down(), "hsa_shut_down");
	return 0;
}
