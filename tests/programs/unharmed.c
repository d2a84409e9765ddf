// Counts its own calls and waits, prints the count and exits with 7: what it must do whatever happens to its recorder.
// `unharmed CALLS NAPS [KIB]`: two threads make CALLS calls and NAPS naps of a millisecond each; a child process does as
// much. With KIB it first forbids itself files that are longer.
// build unharmed: -O2 -g -fno-omit-frame-pointer -lpthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLAIN __attribute__((no_instrument_function, patchable_function_entry(0)))
static unsigned long counted;
static long calls, naps;

__attribute__((noinline, noipa)) long leaf(long x) {
    __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED);
    return x * 3 + 1;
}
__attribute__((noinline, noipa)) long nap(long x) {
    __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    return x;
}
PLAIN static void *work(void *unused) {
    long sum = 0;
    for (long i = 0; i < calls; i++) {
        sum += leaf(i);
        if (naps && i % (calls / naps + 1) == 0) sum += nap(i);
    }
    return (void *)(sum & 1 ? unused : NULL);
}
PLAIN static void work_in_two_threads(void) {
    pthread_t other;
    pthread_create(&other, NULL, work, NULL);
    work(NULL);
    pthread_join(other, NULL);
}
PLAIN int main(int count, char **words) {
    calls = count > 1 ? atol(words[1]) : 1000;
    naps = count > 2 ? atol(words[2]) : 0;
    if (count > 3) {
        rlim_t bytes = (rlim_t)atol(words[3]) << 10;
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, bytes});
    }
    work_in_two_threads();
    pid_t child = fork();
    if (child == 0) {
        counted = 0;
        work_in_two_threads();
        printf("child %lu\n", counted);
        fflush(stdout);
        _exit(5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("parent %lu, child exited with %d\n", counted, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 7;
}
