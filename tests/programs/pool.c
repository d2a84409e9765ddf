// A pool of threads that wait on a condition for jobs; the jobs come in bursts.
// build pool: -O2 -g -pthread
//
// pool [THREADS [BURSTS]]
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static int waiting_jobs, closed;
static long done;

__attribute__((noinline)) static long job(long seed) {
    for (int i = 0; i < 200000; i++) seed = seed * 6364136223846793005UL + 1;
    return seed;
}

__attribute__((noinline)) static int take(void) {
    pthread_mutex_lock(&lock);
    while (!waiting_jobs && !closed) pthread_cond_wait(&some, &lock);
    int got = waiting_jobs > 0;
    if (got) waiting_jobs--;
    pthread_mutex_unlock(&lock);
    return got;
}

static void *worker(void *arg) {
    char name[16];
    snprintf(name, sizeof name, "worker-%ld", (long)arg);
    pthread_setname_np(pthread_self(), name);
    while (take()) __atomic_add_fetch(&done, job((long)arg) & 1, __ATOMIC_RELAXED);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4, bursts = argc > 2 ? atoi(argv[2]) : 100;
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    for (long i = 0; i < threads; i++) pthread_create(&ids[i], NULL, worker, (void *)i);
    for (int i = 0; i < bursts; i++) {
        usleep(10000);
        pthread_mutex_lock(&lock);
        waiting_jobs += 16;
        pthread_cond_broadcast(&some);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_cond_broadcast(&some);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("%ld\n", done);
    return 0;
}
