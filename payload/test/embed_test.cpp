/*
 * embed_test: the half of librtl that reads records (payload/embed), under a sanitizer: callbacks that are replaced while
 * records come, throw, and replace themselves; batches on several threads; functions that end it, called at once.
 */
#include "abi.h"
#include "embed_toy.h"
#include "rtl/rtl.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

#define CHECK(condition) \
	((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

namespace {

std::atomic<uint64_t> seen{0}, released{0}, thrown{0};
std::atomic<bool> over{false}; // rtl_shutdown() has returned

struct Tagged {
	int who;
	bool alive = true;
	explicit Tagged(int who) : who(who) {}
};

void release(void* user)
{
	auto* t = static_cast<Tagged*>(user);
	CHECK(t->alive);
	t->alive = false;
	released++;
	delete t;
}

template <int who> void tagged(const rtl_record_t* r, void* user)
{
	auto* t = static_cast<Tagged*>(user);
	auto* d = reinterpret_cast<const rtl_dispatch_record_t*>(r);

	CHECK(!over && t->alive && t->who == who);
	CHECK(r->kind == RTL_RECORD_DISPATCH && !strcmp(d->kernel, "_Z6kernelv") && !strcmp(d->gpu_name, "gfx90a") && d->queue == 0x1000);
	CHECK(rtl_stop() == -EDEADLK && rtl_shutdown() == -EDEADLK);
	seen++;
	if (who == 1 && seen % 16 == 0) { // by itself: it is released after it has returned
		CHECK(!rtl_set_callback(RTL_RECORD_DISPATCH, tagged<1>, new Tagged(1), release));
		CHECK(t->alive);
	}
	if (who == 2) {
		thrown++;
		throw std::runtime_error("contained");
	}
}

void look(const rtl_record_t* r, void*)
{
	CHECK(!over && r->kind == RTL_RECORD_MARKER);
	auto* m = reinterpret_cast<const rtl_marker_record_t*>(r);
	CHECK(strlen(m->text) == 200 && m->text[199] == 'm');
}

rtl_stats_t stats()
{
	rtl_stats_t s = {};
	s.size = sizeof s;
	CHECK(!rtl_get_stats(&s));
	return s;
}

int start()
{
	rtl_options_t o = {};
	o.size = sizeof o;
	o.buffer_bytes = 64 << 10;
	o.kinds = RTL_BIT(RTL_RECORD_DISPATCH) | RTL_BIT(RTL_RECORD_MARKER);
	return rtl_start(&o);
}

void shut_down()
{
	CHECK(!rtl_shutdown());
	over = true;
	usleep(1000);
	over = false;
}

void replace(long times)
{
	uint64_t set = 0;

	CHECK(!start());
	rtl_set_callback(RTL_RECORD_MARKER, look, nullptr, nullptr);
	std::vector<std::thread> threads;
	for (int t = 0; t < 2; t++)
		threads.emplace_back([times, t] {
			for (long i = 0; i < times / 2; i++)
				CHECK(!((i + t) % 2 ? rtl_set_callback(RTL_RECORD_DISPATCH, tagged<1>, new Tagged(1), release) :
						      rtl_set_callback(RTL_RECORD_DISPATCH, tagged<2>, new Tagged(2), release)));
		});
	for (auto& t : threads)
		t.join();
	set = uint64_t(times);
	for (uint64_t before = seen; seen < before + 100;)
		usleep(100);
	for (uint64_t before = thrown; thrown < before + 100; usleep(100)) /* again: the other one may set itself after that */
		CHECK(!rtl_set_callback(RTL_RECORD_DISPATCH, tagged<2>, new Tagged(2), release));
	CHECK(!rtl_flush(60000));
	shut_down();
	CHECK(released >= set + 1 && stats().exceptions == thrown && stats().unknown == 0);
	printf("replaced %ld times: %lu records, %lu thrown, %lu released\n", times, seen.load(), thrown.load(), released.load());
}

struct Counter {
	std::atomic<uint64_t> dispatches{0}, dropped{0}, ends{0};
};

void count(rtl_buffer_t, const rtl_record_t* r, size_t n, uint64_t dropped, void* user)
{
	auto* c = static_cast<Counter*>(user);

	CHECK(!over);
	for (; n; n--, r = rtl_next(r)) {
		c->dispatches += r->kind == RTL_RECORD_DISPATCH;
		c->ends += r->kind == RTL_RECORD_SESSION_END;
		if (r->kind == RTL_RECORD_MARKER)
			look(r, nullptr);
	}
	c->dropped += dropped;
}

rtl_buffer_t buffer(rtl_batch_callback_t callback, Counter* c, uint32_t policy, rtl_callback_thread_t thread)
{
	rtl_buffer_options_t o = {};
	rtl_buffer_t b;

	o.size = sizeof o;
	o.size_bytes = (64 << 10) + 8; // not a multiple of a record's size
	o.policy = policy;
	o.callback = callback;
	o.user = c;
	o.thread = thread;
	CHECK(!rtl_buffer_create(&o, &b));
	return b;
}

void batches()
{
	Counter shared, own, pulled, discarded;
	rtl_callback_thread_t thread;
	uint64_t before = stats().delivered[RTL_RECORD_DISPATCH];

	CHECK(!rtl_callback_thread_create(&thread));
	buffer(count, &shared, RTL_BUFFER_LOSSLESS, {0});
	buffer(count, &own, RTL_BUFFER_LOSSLESS, thread);
	rtl_buffer_t pull = buffer(nullptr, nullptr, RTL_BUFFER_LOSSLESS, {0});
	rtl_buffer_t rarely = buffer(nullptr, nullptr, RTL_BUFFER_DISCARD, {0});
	CHECK(!start());
	std::thread reader([&] {
		while (!pulled.ends)
			CHECK(rtl_buffer_read(pull, count, &pulled, 10) >= 0);
	});
	for (int i = 0; i < 20; i++) {
		CHECK(!rtl_flush(60000));
		CHECK(rtl_buffer_read(rarely, count, &discarded, 0) >= 0);
		usleep(2000);
	}
	CHECK(!rtl_stop());
	reader.join();
	while (rtl_buffer_read(rarely, count, &discarded, 0) > 0)
		;
	uint64_t all = stats().delivered[RTL_RECORD_DISPATCH] - before;
	CHECK(all && shared.dispatches == all && own.dispatches == all && pulled.dispatches == all && shared.ends == 1);
	CHECK(shared.dropped + own.dropped + pulled.dropped == 0);
	CHECK(discarded.dispatches <= all && discarded.dispatches + discarded.dropped >= all);
	shut_down();
	CHECK(rtl_buffer_read(pull, count, &pulled, 0) == -EINVAL && rtl_buffer_flush(pull, 0) == -EINVAL);
	printf("batches: %lu kernels, %lu of them dropped in the buffer that is read rarely\n", all, discarded.dropped.load());
}

// A reader that waits is sent away by the shutdown; a lossless buffer that nobody reads does not hold it up for ever.
void waiting_reader()
{
	rtl_buffer_t b = buffer(nullptr, nullptr, RTL_BUFFER_DISCARD, {0});
	Counter c;
	std::thread reader([&] {
		int64_t n;
		while ((n = rtl_buffer_read(b, count, &c, 600000)) >= 0)
			;
		CHECK(n == -ECANCELED || n == -EINVAL);
	});
	CHECK(!start());
	shut_down();
	reader.join();
}

void storm(long rounds)
{
	std::vector<std::thread> threads;

	for (unsigned t = 0; t < 4; t++)
		threads.emplace_back([t, rounds] {
			for (long i = 0; i < rounds; i++)
				switch ((t + unsigned(i)) % 5) {
				case 0:
					rtl_set_callback(RTL_RECORD_DISPATCH, tagged<2>, new Tagged(2), release);
					start();
					break;
				case 1: rtl_flush(1000); break;
				case 2: CHECK(!rtl_stop()); break;
				case 3: CHECK(!rtl_shutdown()); break;
				case 4: stats(); break;
				}
		});
	for (auto& t : threads)
		t.join();
	shut_down();
	CHECK(!rtl_shutdown() && !rtl_stop() && !rtl_flush(0));
	printf("storm: %lu sessions\n", stats().sessions);
}

// Each reason that a record can have says something, and no other number does.
void reasons()
{
	for (uint32_t r = 0; r < RTL_REASON_COUNT; r++)
		CHECK(strcmp(rtl_reason_text(r), "unknown"));
	CHECK(!strcmp(rtl_reason_text(RTL_REASON_COUNT), "unknown") && !strcmp(rtl_reason_text(UINT32_MAX), "unknown"));
}

} // namespace

int main(int argc, char** argv)
{
	long times = argc > 1 ? atol(argv[1]) : 10000;

	CHECK(!rtl_shutdown() && !rtl_stop() && !rtl_flush(0)); // before anything else
	CHECK(rtl_set_callback(99, look, nullptr, nullptr) == -EINVAL && rtl_set_callback(20, look, nullptr, nullptr) == -EINVAL);
	reasons();
	replace(times);
	batches();
	waiting_reader();
	storm(40);
	return 0;
}
