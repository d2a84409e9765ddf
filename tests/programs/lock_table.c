// Threads lock a few hot rows of a table whose lock objects hang in one chain: the more wait, the longer the chain
// that each must walk, again and again, before it may wait on the condition variable.
// build lock_table: -O2 -g -pthread
//
// lock_table [THREADS [LOCKS [ROWS]]]: prints how often each function was called and ns waited.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct request {
    long row;
    int granted;
    struct request *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct request *chain;
static long rows = 2, locks = 10;
static long n_walk, n_steps, n_wait, n_acquire, n_release, waited_ns;

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

// Whether an older request in the chain holds or wants the same row.
__attribute__((noinline, noipa)) int chain_walk(const struct request *mine) {
    n_walk++;
    for (const struct request *at = chain; at != mine; at = at->next) {
        n_steps++;
        if (at->row == mine->row)
            return 1;
    }
    return 0;
}

__attribute__((noinline, noipa)) void lock_wait(void) {
    n_wait++;
    long before = now_ns();
    pthread_cond_wait(&changed, &mutex);
    waited_ns += now_ns() - before;
}

__attribute__((noinline, noipa)) void acquire(struct request *mine) {
    pthread_mutex_lock(&mutex);
    n_acquire++;
    struct request **end = &chain;
    while (*end)
        end = &(*end)->next;
    mine->next = NULL;
    *end = mine;
    while (chain_walk(mine))
        lock_wait();
    mine->granted = 1;
    pthread_mutex_unlock(&mutex);
}

__attribute__((noinline, noipa)) void release(struct request *mine) {
    pthread_mutex_lock(&mutex);
    n_release++;
    struct request **at = &chain;
    while (*at != mine)
        at = &(*at)->next;
    *at = mine->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

__attribute__((noinline, noipa)) void row_work(void) {
    for (volatile int i = 0; i < 50; i++)
        ;
    // Another thread's turn while the row is locked.
    struct timespec nap = {0, 1000};
    nanosleep(&nap, NULL);
}

static void *worker(void *argument) {
    long seed = (long)argument;
    for (long i = 0; i < locks; i++) {
        struct request mine = {.row = (seed + i) % rows};
        acquire(&mine);
        row_work();
        release(&mine);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 4;
    locks = argc > 2 ? atol(argv[2]) : locks;
    rows = argc > 3 ? atol(argv[3]) : rows;
    pthread_t ids[256];
    for (long i = 0; i < threads && i < 256; i++)
        pthread_create(&ids[i], NULL, worker, (void *)i);
    for (long i = 0; i < threads && i < 256; i++)
        pthread_join(ids[i], NULL);
    printf("chain_walk %ld\nlock_wait %ld\nacquire %ld\nrelease %ld\nrow_work %ld\n", n_walk, n_wait, n_acquire,
           n_release, n_acquire);
    fprintf(stderr, "%ld steps in the chain, %ld ns waited\n", n_steps, waited_ns);
    return 0;
}
