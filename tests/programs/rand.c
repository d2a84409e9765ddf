// Threads that hammer libc's rand(): its lock lives in libc, which has no frame pointers.
// build rand: -O2 -g -pthread
// build rand-fp: -O2 -g -fno-omit-frame-pointer -pthread
//
// rand [THREADS [MILLIONS]]: a complete stack reads clone > start_thread > work > draw > rand > random > lock wait.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static long per_thread;

__attribute__((noinline)) static unsigned draw(void) {
    unsigned sum = 0;
    for (int i = 0; i < 1000; i++) sum += (unsigned)rand();
    return sum;
}

__attribute__((noinline)) static void *work(void *arg) {
    (void)arg;
    uintptr_t sum = 0;
    for (long i = 0; i < per_thread; i += 1000) sum += draw();
    return (void *)sum;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    per_thread = (long)((argc > 2 ? atof(argv[2]) : 200) * 1e6 / threads);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, NULL);
    uintptr_t sum = 0;
    for (int i = 0; i < threads; i++) {
        void *part;
        pthread_join(ids[i], &part);
        sum += (uintptr_t)part;
    }
    printf("%zu\n", (size_t)sum);
    free(ids);
    return 0;
}
