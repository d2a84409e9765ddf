// Calls library functions a known number of times and prints the counts: straight, by callbacks, out of them by
// longjmp, around setjmp and vfork, from a thread, and variadic ones with floating-point arguments.
// build imports: -O2 -g -fpatchable-function-entry=5 -pthread
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noipa))

static jmp_buf back;
static long n_strtol, n_qsort, n_snprintf, n_usleep, n_getppid, n_compare, n_leave;

NOINLINE int compare(const void *a, const void *b) {
    __atomic_fetch_add(&n_compare, 1, __ATOMIC_RELAXED);
    return *(const int *)a - *(const int *)b;
}

NOINLINE int leave(const void *a, const void *b) {
    n_leave++;
    if (n_leave % 3 == 0)
        longjmp(back, 1);
    return *(const int *)a - *(const int *)b;
}

NOINLINE long work(long rounds) {
    long sum = 0;
    char text[64];
    for (long i = 0; i < rounds; i++) {
        __atomic_fetch_add(&n_snprintf, 1, __ATOMIC_RELAXED);
        snprintf(text, sizeof text, "%ld %.1f %s %d %d", i, i + 0.5, "x", 1, 2);
        if (strtod(strchr(text, ' '), NULL) != i + 0.5)
            abort();
        __atomic_fetch_add(&n_strtol, 1, __ATOMIC_RELAXED);
        sum += strtol(text, NULL, 10);
    }
    return sum;
}

NOINLINE void *thread(void *argument) { return (void *)work((long)argument); }

NOINLINE void jumps(void) {
    int numbers[] = {3, 1, 2};
    for (volatile int i = 0; i < 5; i++) {
        n_qsort++;
        if (setjmp(back) == 0)
            qsort(numbers, 3, sizeof *numbers, leave);
    }
}

int main(void) {
    int numbers[50];
    for (int i = 0; i < 50; i++)
        numbers[i] = i * 7919 % 50;
    n_qsort++;
    qsort(numbers, 50, sizeof *numbers, compare);
    long sum = work(100);
    pthread_t id;
    pthread_create(&id, NULL, thread, (void *)200L);
    pthread_join(id, NULL);
    jumps();
    pid_t child = vfork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 10; i++) {
        n_getppid++;
        sum += getppid() != 0;
    }
    n_usleep++;
    usleep(20000);
    printf("strtol %ld\nqsort %ld\nsnprintf %ld\nusleep %ld\ngetppid %ld\ncompare %ld\nleave %ld\n", n_strtol, n_qsort,
           n_snprintf, n_usleep, n_getppid, n_compare, n_leave);
    return sum == 0;
}
