// Three call paths to one wait: the same instruction, stack pointer and argument.
// build paths: -O2 -g
//
// paths SECONDS: naps in the functions by_a, by_b and by_c in turn, 50 µs, 200 µs and 1 ms long, 5, 2 and 1 times. Prints
// `FUNCTION ns` for each, wall time less CPU time around its naps.
#define _GNU_SOURCE
#pragma GCC optimize("no-optimize-sibling-calls")
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static uint64_t now_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static struct timespec length;
static volatile int calls;

NOINLINE static void nap(void)
{
	clock_nanosleep(CLOCK_MONOTONIC, 0, &length, 0);
	calls++;
}

/* Different code, or compilers make one function of them. */
#define BY(which, number)                      \
	NOINLINE static void by_##which(void)  \
	{                                      \
		nap();                         \
		calls += number;               \
	}
BY(a, 1)
BY(b, 2)
BY(c, 3)

static struct path {
	const char *name;
	void (*call)(void);
	uint64_t ns;
	int times;
	uint64_t sum;
} paths[] = {
	{"by_a", by_a, 50000, 5, 0},
	{"by_b", by_b, 200000, 2, 0},
	{"by_c", by_c, 1000000, 1, 0},
};

static void take(struct path *path)
{
	uint64_t cpu, wall;

	length.tv_nsec = path->ns;
	cpu = now_of(CLOCK_THREAD_CPUTIME_ID);
	wall = now_of(CLOCK_MONOTONIC);
	path->call();
	wall = now_of(CLOCK_MONOTONIC) - wall;
	path->sum += wall - (now_of(CLOCK_THREAD_CPUTIME_ID) - cpu);
}

int main(int argc, char **argv)
{
	uint64_t end = now_of(CLOCK_MONOTONIC) + (argc > 1 ? atof(argv[1]) : 3) * 1e9;

	while (now_of(CLOCK_MONOTONIC) < end)
		for (int i = 0; i < 3; i++)
			for (int times = paths[i].times; times; times--)
				take(&paths[i]);
	for (int i = 0; i < 3; i++)
		printf("%s %llu\n", paths[i].name, (unsigned long long)paths[i].sum);
	return 0;
}
