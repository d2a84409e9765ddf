// Turns bad: four threads nap, each for itself, and from a moment on all within one lock, so that they wait for each other.
//
// build turns: -O1 -g -pthread
//
// turns GOOD_SECONDS BAD_SECONDS
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_bad;

__attribute__((noinline)) static void rest(void) {
    struct timespec time = {0, 5000000};
    nanosleep(&time, 0);
}

static void *work(void *none) {
    for (;;) {
        int bad = is_bad;
        if (bad) pthread_mutex_lock(&lock);
        rest();
        if (bad) pthread_mutex_unlock(&lock);
    }
    return none;
}

int main(int argc, char **argv) {
    pthread_t thread;
    for (int i = 0; i < 4; i++) pthread_create(&thread, 0, work, 0);
    sleep(argc > 1 ? atoi(argv[1]) : 3);
    is_bad = 1;
    sleep(argc > 2 ? atoi(argv[2]) : 3);
    return 0;
}
