/*
 * calls_test.cpp: what may pass through the wrapper of recorded calls unharmed.
 *
 * Arguments in integer and vector registers (256 bits wide, too) and on the stack, structs by
 * value, varargs; results in rax, rdx:rax, xmm0, xmm1, st0, ymm0 and memory; the alignment of the
 * stack; a C++ exception; pthread_cancel; longjmp; fork; signal handlers that call wrapped
 * functions; both clocks; a lane that is full; and, at each single instruction of the wrapper and of
 * call_leave(), an unwinder that finds the caller (single steps by the trap flag, and
 * _Unwind_Backtrace in the handler). Prints what it did; ends with 1 at the first fault.
 */
extern "C" {
#include "calls_test.h"
}
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <immintrin.h>
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define CHECK(x) do { if (!(x)) { printf("FAULT line %d: %s\n", __LINE__, #x); exit(1); } } while (0)

template <class F> static F *wrapped(F *f, int words)
{
	return (F *)test_wrap((uintptr_t)f, words);
}

struct Two { uint64_t a, b; };
struct Doubles { double a, b; };
struct Mixed { uint64_t a; double b; };
struct Large { uint64_t v[8]; };
struct Id { uint64_t v[16]; }; /* as ncclCommInitRank's */

#define N __attribute__((noinline))
static bool aligned() { alignas(16) volatile char c[16]; return ((uintptr_t)c & 15) == 0; }
N static uint64_t sum14(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i,
	uint64_t j, uint64_t k, uint64_t l, uint64_t m, uint64_t n)
{
	alignas(16) volatile __m128 probe = _mm_set1_ps(1); /* movaps: faults unless aligned */
	(void)probe;
	CHECK(aligned());
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l + 13 * m + 14 * n;
}
N static uint64_t sum7(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g)
{
	alignas(16) volatile __m128 probe = _mm_set1_ps(1);
	(void)probe;
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g;
}
N static double doubles(double a, double b, double c, double d, double e, double f, double g, double h, double on_stack)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * on_stack;
}
N static Two two(uint64_t a, uint64_t b) { return {a * 3, b * 5}; }
N static Doubles two_doubles(double a, double b) { return {a * 3, b * 5}; }
N static Mixed mixed(double a, uint64_t b) { return {b * 7, a * 11}; }
N static Large large(Large l, uint64_t k) { for (auto &x : l.v) x *= k; return l; }
N static uint64_t with_id(int *a, int b, Id id, int c) { uint64_t s = 0; for (auto x : id.v) s = s * 3 + x; return s + (uint64_t)(*a + 2 * b + 3 * c); }
N static long double st0(long double a, int b) { return a * b; }
N __attribute__((target("avx2"))) static __m256i wide(__m256i a, __m256i b) { return _mm256_add_epi64(a, b); }
N static double varargs(const char *types, ...)
{
	va_list v;
	double r = 0;
	va_start(v, types);
	for (; *types; types++)
		r += *types == 'd' ? va_arg(v, double) : (double)va_arg(v, int);
	va_end(v);
	return r;
}
N static int throws(int x) { if (x > 2) throw x; return x; }
struct Guard { int *p; ~Guard() { ++*p; } };

__attribute__((target("avx2"))) static void values()
{
	auto w14 = wrapped(sum14, 8);
	auto w7 = wrapped(sum7, 1);
	auto wd = wrapped(doubles, 1);
	auto w2 = wrapped(two, 0);
	auto w2d = wrapped(two_doubles, 0);
	auto wm = wrapped(mixed, 0);
	auto wl = wrapped(large, 8);
	auto wi = wrapped(with_id, 16);
	auto wst = wrapped(st0, 2);
	auto ww = wrapped(wide, 0);
	auto wv = wrapped(varargs, 8);
	for (int round = 0; round < 2000; round++) {
		uint64_t r = (uint64_t)random();
		CHECK(w14(r, 2, 3, 4, 5, r, 7, 8, 9, r, 11, 12, 13, r) == sum14(r, 2, 3, 4, 5, r, 7, 8, 9, r, 11, 12, 13, r));
		CHECK(w7(1, r, 3, 4, 5, 6, r) == sum7(1, r, 3, 4, 5, 6, r));
		double d = (double)r;
		CHECK(wd(1, d, 3, 4, d, 6, 7, 8, d) == doubles(1, d, 3, 4, d, 6, 7, 8, d));
		Two t = w2(r, r + 1);
		CHECK(t.a == r * 3 && t.b == (r + 1) * 5);
		Doubles dd = w2d(d, d + 1);
		CHECK(dd.a == d * 3 && dd.b == (d + 1) * 5);
		Mixed m = wm(d, r);
		CHECK(m.a == r * 7 && m.b == d * 11);
		Large l = {{r, 1, 2, 3, 4, 5, 6, r}}, k = wl(l, 9);
		CHECK(k.v[0] == r * 9 && k.v[7] == r * 9 && k.v[3] == 27);
		int a1 = 7;
		Id id = {{r, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, r, 15}};
		CHECK(wi(&a1, 2, id, 3) == with_id(&a1, 2, id, 3));
		CHECK(wst((long double)r, 3) == (long double)r * 3);
		__m256i a = _mm256_set_epi64x(1, 2, 3, (long long)r), s = ww(a, a);
		CHECK(_mm256_extract_epi64(s, 0) == (long long)(2 * r) && _mm256_extract_epi64(s, 3) == 2);
		CHECK(wv("didididd", 1.0, 2, 3.0, 4, 5.0, 6, 7.0, 8.0) == 36);
		test_take();
	}
	printf("values: 10 signatures, 2000 rounds\n");
}

static void exceptions()
{
	auto w = wrapped(throws, 3);
	int caught = 0, guards = 0;
	for (int i = 0; i < 10000; i++) {
		try {
			Guard g{&guards};
			w(i % 6);
		} catch (int x) {
			caught++;
		}
	}
	test_take();
	CHECK(caught == 4998 || caught == 4999 || caught == 5000);
	CHECK(guards == 10000);
	printf("exceptions: %d thrown through\n", caught);
}

static std::atomic<int> asleep;
N static int sleeps(int) { asleep++; for (;;) pause(); }
static int (*wrapped_sleep)(int);
static int cleaned;
static void *cancelled(void *) { Guard g{&cleaned}; wrapped_sleep(1); return nullptr; }
static void cancels()
{
	wrapped_sleep = wrapped(sleeps, 1);
	for (int i = 0; i < 50; i++) {
		pthread_t t;
		void *r;
		pthread_create(&t, nullptr, cancelled, nullptr);
		while (asleep == i)
			sched_yield();
		pthread_cancel(t);
		pthread_join(t, &r);
		CHECK(r == PTHREAD_CANCELED);
	}
	CHECK(cleaned == 50);
	printf("pthread_cancel: 50 threads inside, destructors ran\n");
}

static jmp_buf back;
N static int jumps(int x) { longjmp(back, x); }
static void longjmps()
{
	auto w = wrapped(jumps, 0);
	volatile int n = 0;
	for (int i = 1; i < 1000; i++)
		if (!setjmp(back))
			w(i);
		else
			n = n + 1;
	CHECK(n == 999);
	printf("longjmp: 999 over it\n");
}

static uint64_t (*in_handler)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
static volatile long handled, handler_calls;
static void on_alarm(int)
{
	handled++;
	for (int i = 0; i < 3; i++)
		if (in_handler(1, 2, 3, 4, 5, 6, 7) == sum7(1, 2, 3, 4, 5, 6, 7))
			handler_calls++;
}
static void signals()
{
	struct sigaction sa = {};
	struct itimerval tv = {{0, 50}, {0, 50}}, off = {};
	auto w14 = wrapped(sum14, 8);
	long calls = 0;

	in_handler = wrapped(sum7, 1);
	sa.sa_handler = on_alarm;
	sigaction(SIGALRM, &sa, nullptr);
	test_take();
	test_reset();
	setitimer(ITIMER_REAL, &tv, nullptr);
	for (; handled < 20000; calls++) {
		uint64_t r = (uint64_t)calls;
		CHECK(w14(r, 2, 3, 4, 5, r, 7, 8, 9, r, 11, 12, 13, r) == sum14(r, 2, 3, 4, 5, r, 7, 8, 9, r, 11, 12, 13, r));
		if (calls % 1024 == 0)
			test_take();
	}
	setitimer(ITIMER_REAL, &off, nullptr);
	test_take();
	CHECK(handler_calls == 3 * handled);
	CHECK(test_records() + test_lost() == (uint64_t)(calls + handler_calls));
	printf("signals: %ld handlers with 3 wrapped calls each over %ld calls: %lu records, %lu lost\n", handled, calls, test_records(), test_lost());
}

/* --- every instruction --- */
static uintptr_t want_function;
static long steps, in_wrapper, in_leave, missed;
static _Unwind_Reason_Code look(struct _Unwind_Context *c, void *found)
{
	if (_Unwind_FindEnclosingFunction((void *)(_Unwind_GetIP(c) - 1)) == (void *)want_function)
		*(bool *)found = true;
	return _URC_NO_REASON;
}
static void on_trap(int, siginfo_t *, void *context)
{
	auto *u = (ucontext_t *)context;
	uintptr_t ip = (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
	bool found = false;

	steps++;
	in_wrapper += ip >= (uintptr_t)call_text_begin && ip < (uintptr_t)call_text_end;
	in_leave += ip >= (uintptr_t)call_leave && ip < (uintptr_t)call_leave + 0x110;
	_Unwind_Backtrace(look, &found);
	if (!found) {
		missed++;
		printf("no way out at %#lx (wrapper + %#lx)\n", ip, ip - (uintptr_t)call_text_begin);
	}
}
N static void step_through(uint64_t (*f)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))
{
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	uint64_t r = f(1, 2, 3, 4, 5, 6, 7);
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
	CHECK(r == 140);
}
static void every_instruction()
{
	struct sigaction sa = {};
	sa.sa_sigaction = on_trap;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGTRAP, &sa, nullptr);
	want_function = (uintptr_t)step_through;
	auto w = wrapped(sum7, 1);
	for (int gate = 0; gate < 2; gate++) {
		test_open(gate);
		step_through(w);
	}
	printf("unwinding: %ld single steps, %ld in the wrapper, %ld in call_leave, caller not found at %ld\n", steps, in_wrapper, in_leave, missed);
	CHECK(!missed && in_wrapper > 60);
	test_take();
}

static void forks()
{
	auto w = wrapped(two, 0);
	test_take();
	test_reset();
	pid_t p = fork();
	if (!p) {
		for (int i = 0; i < 100; i++)
			CHECK(w(1, 2).b == 10);
		_exit(test_take() ? 1 : 0);
	}
	int status;
	waitpid(p, &status, 0);
	CHECK(status == 0);
	printf("fork: the child passes through, records nothing\n");
}

static void full()
{
	auto w = wrapped(two, 0);

	test_take();
	test_reset();
	for (int i = 0; i < 3000; i++)
		CHECK(w(1, 2).b == 10);
	test_take();
	CHECK(test_records() + test_lost() == 3000 && test_lost() == 3000 - test_lane_cells());
	printf("full: %lu records, %lu lost\n", test_records(), test_lost());
}

static uint64_t boottime_ns()
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void boottime()
{
	test_use_boottime();
	if (__builtin_cpu_supports("avx2"))
		values();
	auto w = wrapped(two, 0);
	test_take();
	uint64_t before = boottime_ns();
	CHECK(w(3, 4).a == 9);
	uint64_t after = boottime_ns();
	CHECK(test_take() == 1 && test_last_start() >= before && test_last_end() >= test_last_start() && test_last_end() <= after);
	every_instruction();
	printf("boottime: the same by the other clock\n");
}

int main()
{
	CHECK(test_begin());
	test_open(1);
	if (__builtin_cpu_supports("avx2"))
		values();
	exceptions();
	cancels();
	longjmps();
	signals();
	every_instruction();
	forks();
	full();
	boottime();
	printf("all right\n");
}
