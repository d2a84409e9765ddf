/* A function under two names, and one whose code is chosen when the program starts. Build with -rdynamic. */
#include <stdio.h>

static long calls;

__attribute__((noinline)) long counted(long x) {
	calls++;
	return x * 3;
}

long also_counted(long x) __attribute__((alias("counted")));

__attribute__((noinline)) static long this_one(long x) {
	return x + 1;
}

static long (*choose(void))(long) {
	return this_one;
}

long chosen(long x) __attribute__((ifunc("choose")));

int main(void) {
	volatile long sum = 0;

	for (long i = 0; i < 40; i++)
		sum += (i % 4 ? counted(i) : also_counted(i)) + chosen(i);
	printf("counted %ld\n", calls);
	return sum < 0;
}
