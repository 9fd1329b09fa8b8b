/*
 * lanes_test: the lanes of calls' records between threads that claim and publish cells, the
 * worker that takes them, and sessions that begin and end meanwhile. Under both sanitizers.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/session_flags.h"
#include "kinds/kind.h"
#include "record/lanes.h"

#define KIND RTL_KIND_HIP_RUNTIME_API
#define PRODUCERS 6
#define SESSIONS 60
#define IDS (1 << 22)

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                               \
		}                                                              \
	} while (0)

/* --- what the lanes need of the payload ----------------------------------------- */

static uint8_t taken[IDS]; /* by the cell's id: how often */
static _Atomic uint64_t taken_count;

static void take_cell(const struct lane_cell *c)
{
	uint64_t id = c->words[0];

	CHECK(id < IDS && c->kind == KIND && c->words[LANE_WORDS - 1] == ~id);
	taken[id]++;
	atomic_fetch_add_explicit(&taken_count, 1, memory_order_relaxed); /* orders nothing that the lanes must order */
}

static const struct kind api = {.take_cell = take_cell};
const struct kind *const kinds[RTL_KINDS_MAX] = {[KIND] = &api};
struct session_flags session_flags;
struct rtl_config config = {.trace = 1 << KIND};
static struct rtl_counters counted;
struct rtl_counters *counters = &counted;
const volatile uint32_t *fork_canary;

/* --- sessions --------------------------------------------------------------------- */

static _Atomic bool worker_stops;
static pthread_t worker;

static void *run_worker(void *unused)
{
	while (!atomic_load(&worker_stops))
		if (!lanes_take())
			sys_yield();
	lanes_take();
	lanes_count_unpublished();
	return unused;
}

static void begin(void)
{
	atomic_fetch_add(&session_flags.generation, 1);
	CHECK(lanes_prepare() == 0);
	lanes_open(KIND);
}

static void start_worker(void)
{
	atomic_store(&worker_stops, false);
	CHECK(!pthread_create(&worker, NULL, run_worker, NULL));
}

static void stop_worker(void)
{
	atomic_store(&worker_stops, true);
	pthread_join(worker, NULL);
}

static void end(uint64_t wait_ns)
{
	lanes_close(KIND, now_monotonic() + wait_ns);
	lanes_take();
	lanes_count_unpublished();
	lanes_release();
}

/* --- threads that make calls -------------------------------------------------------- */

static _Atomic bool producers_stop, some_sleep;
static _Atomic uint64_t ids, recorded, voids, refused;
static uint8_t outcome[IDS]; /* 1: published as a record */

static uint64_t now_of(_Atomic uint64_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static uint64_t add(_Atomic uint64_t *n)
{
	return atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static void fill(struct lane_cell *c, uint64_t id, bool record)
{
	c->kind = record ? KIND : LANE_VOID;
	c->words[0] = id;
	c->words[LANE_WORDS - 1] = ~id;
}

static struct lane_cell *claim_one(uint64_t *position)
{
	struct lane_claim c = lane_claim(KIND, 1);

	*position = c.position;
	return c.lane ? lane_cell(&c, 0) : NULL;
}

static void publish(struct lane_cell *c, uint64_t position)
{
	lane_publish(&(struct lane_claim){.cells = c - position % LANE_CELLS, .position = position}, 1);
}

static void one_call(uint64_t turn)
{
	uint32_t at_start = atomic_load(lanes_gate);
	struct lane_cell *c;
	uint64_t position;

	if (!lane_is_open(KIND, at_start))
		return;
	if (!(c = claim_one(&position))) {
		add(&refused);
		return;
	}
	bool record = lane_is_open(KIND, at_start);
	uint64_t id = record ? add(&ids) : 0;
	CHECK(id < IDS);
	fill(c, id, record);
	if (record)
		outcome[id] = 1;
	add(record ? &recorded : &voids);
	if (atomic_load_explicit(&some_sleep, memory_order_relaxed) && turn % 1000 == 0)
		sys_sleep_ns(3 * NS_PER_MS);
	publish(c, position);
}

static void *produce(void *unused)
{
	for (uint64_t turn = 1; !atomic_load_explicit(&producers_stop, memory_order_relaxed) && now_of(&ids) < IDS - 2 * PRODUCERS; turn++) {
		one_call(turn);
		while (!atomic_load_explicit(&some_sleep, memory_order_relaxed) && !atomic_load_explicit(&producers_stop, memory_order_relaxed) && now_of(&ids) - now_of(&taken_count) > LANE_CELLS / 2)
			sys_yield(); /* the lane is never full */
	}
	return unused;
}

/* The lane comes of the thread descriptor's address, at the end of its stack: so far apart, all
 * threads have the same one. */
#define STACK (1ul << 20)
static void start_producers(pthread_t *threads, uint64_t apart)
{
	char *room = mmap(NULL, PRODUCERS * apart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pthread_attr_t a;

	CHECK(room != MAP_FAILED && apart >= STACK);
	atomic_store(&producers_stop, false);
	for (int i = 0; i < PRODUCERS; i++) {
		pthread_attr_init(&a);
		CHECK(!pthread_attr_setstack(&a, room + (size_t)i * apart, STACK));
		CHECK(!pthread_create(&threads[i], &a, produce, NULL));
	}
}

static void stop_producers(pthread_t *threads)
{
	atomic_store(&producers_stop, true);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
}

static void start_anew(void)
{
	memset(taken, 0, sizeof taken);
	memset(outcome, 0, sizeof outcome);
	memset(&counted, 0, sizeof counted);
	ids = recorded = voids = refused = taken_count = 0;
}

/* Records that no session took; none is taken twice, or without having been recorded. */
static uint64_t not_taken(void)
{
	uint64_t n = 0;

	for (uint64_t id = 0; id < atomic_load(&ids); id++) {
		CHECK(taken[id] <= 1 && outcome[id] == 1);
		n += !taken[id];
	}
	return n;
}

static const struct rtl_kind_counters *account(void)
{
	return &counted.kind[KIND];
}

/* Sessions come and go while threads make calls, and some sleep in the middle of one. */
static void sessions_and_late_threads(uint64_t apart, bool late)
{
	pthread_t threads[PRODUCERS];

	start_anew();
	atomic_store(&some_sleep, late);
	start_producers(threads, apart);
	for (int i = 0; i < SESSIONS; i++) {
		begin();
		start_worker();
		sys_sleep_ns(5 * NS_PER_MS);
		lanes_close(KIND, now_monotonic() + (late ? NS_PER_MS : 60 * NS_PER_S));
		stop_worker();
		lanes_keep(i % 3); /* as between two windows */
		lanes_release();
		if (i % 5 == 0)
			lanes_give_back();
	}
	lanes_keep(false);
	lanes_give_back();
	stop_producers(threads);
	uint64_t missing = not_taken(), full = account()->untimed[RTL_REASON_BACKLOG], slept = account()->untimed[RTL_REASON_NOT_COMPLETED];
	CHECK(atomic_load(&taken_count) + missing == atomic_load(&recorded) && atomic_load(&recorded) > 1000);
	CHECK(missing <= slept && slept <= missing + atomic_load(&voids));
	CHECK(full <= atomic_load(&refused) && atomic_load(&refused) <= full + SESSIONS * PRODUCERS);
	CHECK(account()->begun == full + slept && account()->lost == full + slept);
	CHECK(late || (!missing && !full)); /* never more calls at once than a lane has cells */
	printf("%s: %lu records, %lu void, %lu refused, %lu of late threads\n", late ? "late" : "one lane", atomic_load(&recorded),
	       atomic_load(&voids), atomic_load(&refused), missing);
}

/* --- step by step ----------------------------------------------------------------- */

static struct lane *lane_of_cell(const struct lane_cell *c)
{
	for (struct lane *l = lanes; l < lanes + LANES; l++) {
		struct lane_cell *first = atomic_load(&l->cells);

		if (first && c >= first && c < first + LANE_CELLS)
			return l;
	}
	return NULL;
}

static struct lane_cell *claim(uint64_t id, uint64_t *position)
{
	struct lane_cell *c = claim_one(position);

	if (c)
		fill(c, id, true);
	return c;
}

/* A thread sleeps with a claimed cell over the end of its session and a whole later one. */
static void sleeper(void)
{
	uint64_t position, other;

	start_anew();
	begin();
	struct lane_cell *c = claim(1, &position);
	struct lane *l = lane_of_cell(c);
	CHECK(l == &lanes[lane_number()]);
	end(NS_PER_MS);
	CHECK(account()->begun == 1 && account()->lost == 1 && account()->untimed[RTL_REASON_NOT_COMPLETED] == 1);

	begin(); /* the lane is passed over, and a call of the same thread is recorded in the next one */
	CHECK(!atomic_load(&l->cells));
	struct lane_cell *next = claim(2, &other);
	CHECK(next && lane_of_cell(next) == &lanes[(l - lanes + 1) % LANES]);
	publish(next, other);
	uint64_t from = now_monotonic();
	end(60 * NS_PER_S); /* waits for none that is late since an earlier session */
	CHECK(now_monotonic() - from < 30 * NS_PER_S);
	CHECK(taken[2] == 1 && account()->begun == 1);

	begin();
	publish(c, position); /* in the middle of a session */
	CHECK(lanes_take() == 0 && lanes_waiting() == 0);
	end(60 * NS_PER_S);
	begin(); /* and from the next one on the lane is used again */
	CHECK((c = claim(3, &position)) && lane_of_cell(c) == l);
	end(NS_PER_MS);
	CHECK(!taken[1] && account()->begun == 2);
	publish(c, position); /* there is no session */
}

/* A thread that has read l->cells before the end claims and publishes when the memory goes. */
static struct lane *forgotten;
static struct lane_cell *own_cells;
static int came_late;
void __real_forget_memory(void *p, size_t size), __wrap_forget_memory(void *p, size_t size);

void __wrap_forget_memory(void *p, size_t size)
{
	struct lane_cell *c;
	uint64_t position;

	if (forgotten && p == own_cells) {
		came_late++;
		atomic_store(&forgotten->cells, p);
		if ((c = claim(1, &position)))
			publish(c, position);
		atomic_store(&forgotten->cells, NULL);
	}
	__real_forget_memory(p, size);
}

static void late_while_the_memory_goes(void)
{
	start_anew();
	begin();
	forgotten = &lanes[lane_number()];
	own_cells = atomic_load(&forgotten->cells);
	end(0);
	CHECK(came_late == 1);
	forgotten = NULL;
	begin();
	CHECK(atomic_load(&lanes[lane_number()].cells) == own_cells);
	end(0);
	CHECK(atomic_load(&taken_count) == 0 && account()->begun == 0);
}

/* So many threads sleep that the lanes behind the thread's own are all passed over, then all. */
static void no_lane_left(void)
{
	struct lane_cell *cells[LANES];
	uint64_t positions[LANES], position;

	start_anew();
	for (uint32_t i = 0; i < LANES; i++) {
		begin();
		cells[i] = claim(i, &positions[i]);
		CHECK(cells[i] && lane_of_cell(cells[i]) == &lanes[(lane_number() + i) % LANES]);
		end(0);
	}
	CHECK(account()->lost == LANES);
	begin();
	CHECK(!claim(0, &position));
	end(0);
	CHECK(account()->lost == LANES + 1 && account()->untimed[RTL_REASON_BACKLOG] == 1);
	for (uint32_t i = 0; i < LANES; i++)
		publish(cells[i], positions[i]);
	begin();
	CHECK(lane_of_cell(claim(0, &position)) == &lanes[lane_number()]);
	end(0);
	CHECK(atomic_load(&taken_count) == 0);
}

/* A full lane refuses, and each refused call is counted; then its cells are used again. */
static void full(void)
{
	struct lane_cell *c;
	uint64_t position;

	start_anew();
	begin();
	for (uint64_t id = 0; id < LANE_CELLS; id++) {
		CHECK((c = claim(id, &position)));
		publish(c, position);
	}
	CHECK(!claim(0, &position) && !claim(0, &position) && lanes_waiting() == LANE_CELLS);
	CHECK(lanes_take() == LANE_CELLS && account()->lost == 2 && (c = claim(LANE_CELLS, &position)));
	publish(c, position);
	end(0);
	CHECK(atomic_load(&taken_count) == LANE_CELLS + 1 && account()->lost == 2 && account()->begun == 2);
}

/* The worker has caught up when it has taken the cells that were claimed the time before, and not only those in front of a
 * cell that a late thread has not published. */
static void caught_up(void)
{
	struct lane_cell *cells[3];
	uint64_t positions[3];

	start_anew();
	begin();
	CHECK(lanes_caught_up());
	for (uint64_t i = 0; i < 3; i++)
		CHECK((cells[i] = claim(i, &positions[i])));
	CHECK(lanes_caught_up()); /* they were claimed since */
	publish(cells[0], positions[0]);
	publish(cells[2], positions[2]);
	CHECK(lanes_take() == 1 && !lanes_caught_up() && !lanes_caught_up());
	publish(cells[1], positions[1]);
	CHECK(!lanes_caught_up() && lanes_take() == 2 && lanes_caught_up() && lanes_caught_up());
	CHECK((cells[0] = claim(3, &positions[0])) && lanes_caught_up());
	end(0);
	begin(); /* without that lane */
	CHECK(lanes_caught_up());
	publish(cells[0], positions[0]);
	end(0);
}

int main(void)
{
	sleeper();
	caught_up();
	full();
	sessions_and_late_threads(1ul << 29, false);
	sessions_and_late_threads(STACK, true);
	late_while_the_memory_goes();
	no_lane_left();
	printf("lanes_test: all right\n");
	return 0;
}
