// Ten thousand threads that are all alive at once, each with a little work.
// build threads: -O2 -g -pthread
//
// threads [THREADS [ROUNDS]]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t go = PTHREAD_COND_INITIALIZER;
static int open_gate, rounds;

__attribute__((noinline)) static long work(long seed) {
    for (int i = 0; i < rounds; i++) seed = seed * 6364136223846793005UL + 1;
    return seed;
}

static void *life(void *arg) {
    pthread_mutex_lock(&lock);
    while (!open_gate) pthread_cond_wait(&go, &lock);
    pthread_mutex_unlock(&lock);
    return (void *)work((long)arg);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 10000, made = 0;
    rounds = argc > 2 ? atoi(argv[2]) : 200000;
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    while (made < threads && pthread_create(&ids[made], &small, life, (void *)(long)made) == 0) made++;
    pthread_mutex_lock(&lock);
    open_gate = 1;
    pthread_cond_broadcast(&go);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < made; i++) pthread_join(ids[i], NULL);
    printf("%d threads\n", made);
    return made == threads ? 0 : 1;
}
