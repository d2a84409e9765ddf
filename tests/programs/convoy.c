// A convoy: every thread needs the same mutex for most of its work, so they run one after another.
// build convoy: -O2 -g -pthread
//
// convoy [THREADS [ROUNDS]]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rounds;
static long shared;

__attribute__((noinline)) static void inside(void) {
    for (int i = 0; i < 100000; i++) shared = shared * 6364136223846793005UL + 1;
}

__attribute__((noinline)) static long outside(long seed) {
    for (int i = 0; i < 10000; i++) seed = seed * 6364136223846793005UL + 1;
    return seed;
}

static void *work(void *arg) {
    long *seed = arg;
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&lock);
        inside();
        pthread_mutex_unlock(&lock);
        *seed = outside(*seed);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 8;
    rounds = argc > 2 ? atoi(argv[2]) : 1000;
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    long *seeds = calloc((size_t)threads, sizeof *seeds);
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, &seeds[i]);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("%ld\n", shared);
    return 0;
}
