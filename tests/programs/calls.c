// Counts its own calls, by function, and prints the counts: recursion, longjmp, callbacks, a signal handler,
// threads, fork. What a tracer counts must be equal.
// build calls: -O2 -g -pthread
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLAIN __attribute__((no_instrument_function))

static jmp_buf back;
static long n_leaf, n_fib, n_jumper, n_compare, n_handler, n_work, n_sink;

__attribute__((noinline, noipa)) long leaf(long x) {
    __atomic_fetch_add(&n_leaf, 1, __ATOMIC_RELAXED);
    return x * 3 + 1;
}

__attribute__((noinline, noipa)) long fib(long n) {
    n_fib++;
    if (n < 2)
        return leaf(n);
    long a = fib(n - 1), b = fib(n - 2);
    // Keeps the compiler from turning the recursion into a loop, which would be fewer calls.
    __asm__ volatile("" : "+r"(a), "+r"(b));
    return a + b;
}

__attribute__((noinline, noipa)) long jumper(long depth) {
    n_jumper++;
    if (depth == 0)
        longjmp(back, 1);
    return jumper(depth - 1) + leaf(depth);
}

// Has no result: instrumented, it may jump to what reports its exit.
__attribute__((noinline, noipa)) void sink(long depth) {
    n_sink++;
    if (depth > 0) {
        sink(depth - 1);
        sink(depth - 1);
    }
    __asm__ volatile("");
}

__attribute__((noinline, noipa)) int compare(const void *a, const void *b) {
    n_compare++;
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline, noipa)) void handler(int number) {
    n_handler++;
    leaf(number);
}

__attribute__((noinline, noipa)) void *work(void *argument) {
    __atomic_fetch_add(&n_work, 1, __ATOMIC_RELAXED);
    long sum = 0;
    for (long i = 0; i < 1000; i++)
        sum += leaf(i);
    return (void *)(sum + (long)argument);
}

PLAIN int main(void) {
    long sum = fib(16);
    if (setjmp(back) == 0)
        sum += jumper(7);
    sum += leaf(1);
    sink(8);
    int numbers[200];
    for (int i = 0; i < 200; i++)
        numbers[i] = (i * 7919) % 211;
    qsort(numbers, 200, sizeof *numbers, compare);
    signal(SIGUSR1, handler);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    // The child's calls are the child's: it makes 11 and they are added here.
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 11; i++)
            leaf(i);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("leaf %ld\nfib %ld\njumper %ld\ncompare %ld\nhandler %ld\nwork %ld\nsink %ld\n", n_leaf + 11, n_fib, n_jumper,
           n_compare, n_handler, n_work, n_sink);
    return sum == 0;
}
