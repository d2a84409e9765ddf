// Threads that walk one list under a spin lock.
// build list: -O2 -g -pthread
//
// list [THREADS [ROUNDS]]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *next;
    long value;
};

static pthread_spinlock_t lock;
static struct node *head;
static int rounds;

__attribute__((noinline)) static long walk(void) {
    long sum = 0;
    for (struct node *node = head; node; node = node->next) sum += node->value++;
    return sum;
}

__attribute__((noinline)) static void *work(void *arg) {
    long *sum = arg;
    for (int i = 0; i < rounds; i++) {
        pthread_spin_lock(&lock);
        *sum += walk();
        pthread_spin_unlock(&lock);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    rounds = argc > 2 ? atoi(argv[2]) : 60000;
    pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
    for (long i = 0; i < 2000; i++) {
        struct node *node = malloc(sizeof *node);
        *node = (struct node){head, i};
        head = node;
    }
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    long *sums = calloc((size_t)threads, sizeof *sums);
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, &sums[i]);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("%ld\n", sums[0]);
    return 0;
}
