// Counts its own calls, prints the counts and ends as it is told: `crash segv|kill|abort|exec OTHER`. With `exec` it becomes
// OTHER, which counts by itself.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long n_inner, n_outer, n_last;

__attribute__((noinline, noipa)) long inner(long x) { return n_inner++ + x; }
__attribute__((noinline, noipa)) long outer(long n) {
    n_outer++;
    long sum = 0;
    for (long i = 0; i < n; i++) sum += inner(i);
    return sum;
}
__attribute__((noinline, noipa)) void last(const char *how, char **more) {
    n_last++;
    printf("inner %ld\nouter %ld\nlast %ld\n", n_inner, n_outer, n_last);
    fflush(stdout);
    if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "exec") == 0) execv(more[0], more);
    *(volatile int *)8 = 1;
}
__attribute__((no_instrument_function)) int main(int count, char **words) {
    for (long n = 0; n < 200; n++) outer(n);
    last(count > 1 ? words[1] : "segv", words + 2);
    return 0;
}
