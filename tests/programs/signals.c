// Sends itself SIGUSR1, works, sends itself SIGUSR2 and works on; prints how often it called what.
// Built by the tests: recording begins and stops by these signals.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define STEP(name)                                              \
    static long n_##name;                                       \
    __attribute__((noinline, noipa)) long name(long n) {        \
        n_##name++;                                             \
        return n + 1;                                           \
    }
STEP(before)
STEP(during)
STEP(after)

int main(void) {
    long sum = 0;
    for (int i = 0; i < 1000; i++)
        sum = before(sum);
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 1000; i++)
        sum = during(sum);
    kill(getpid(), SIGUSR2);
    for (int i = 0; i < 1000; i++)
        sum = after(sum);
    printf("before %ld\nduring %ld\nafter %ld\n", n_before, n_during, n_after);
    return sum == 0;
}
