// 500 requests of 40 steps each, of which three take long; prints how often it called what, and how many were slow.
// Built by the tests: only the slow ones are to be kept.
#include <stdio.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noipa))

static long n_request, n_step, n_outside;

NOINLINE long step(long n) {
    n_step++;
    return n * 3 + 1;
}

NOINLINE long request(long n) {
    n_request++;
    for (int i = 0; i < 40; i++)
        n = step(n);
    if (n_request == 7 || n_request == 200 || n_request == 499)
        usleep(50000);
    return n;
}

NOINLINE long outside(long n) {
    n_outside++;
    return n - 1;
}

int main(void) {
    long sum = 1;
    for (int i = 0; i < 500; i++)
        sum = outside(request(sum));
    printf("request %ld\nstep %ld\noutside %ld\nslow 3\n", n_request, n_step, n_outside);
    return sum == 0;
}
