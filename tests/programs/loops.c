// An event loop whose slow handler holds up quick requests, and a client of such a loop in another process.
//
// build loops: -O1 -g -pthread
//
//   loops both [ROUNDS [SLOW_US]]       loop and three clients in one process: two ask for quick(), one for slow()
//   loops busy [ROUNDS [SLOW_US]]       the same, but slow() computes, with a priority; there are more quick requests
//   loops serve PATH [SLOW_US]          the loop at a unix socket, until its last client has gone
//   loops ask PATH [ROUNDS]             a client that asks such a loop for slow()
//
// At the end each prints its own measurement, ns: wall, slow and its longest call (loop), waited (client).
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int rounds = 30;
static long slow_us = 20000;
static uint64_t slow_ns, longest_ns, waited_ns;
static volatile uint64_t sink;

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static int is_busy;

__attribute__((noinline)) static void fetch(void) {
    if (!is_busy)
        usleep(slow_us);
    for (uint64_t until = now() + slow_us * 1000; is_busy && now() < until;)
        sink = sink * 31 + 1;
    sink++;
}

__attribute__((noinline)) static void slow(int fd) {
    uint64_t began = now();
    fetch();
    uint64_t took = now() - began;
    slow_ns += took;
    if (took > longest_ns)
        longest_ns = took;
    if (write(fd, "s", 1) != 1)
        abort();
}

__attribute__((noinline)) static void quick(int fd) {
    for (int i = 0; i < (is_busy ? 300000 : 1000); i++)
        sink = sink * 31 + i;
    if (write(fd, "q", 1) != 1)
        abort();
}

// Answers until no client is left; `listener` is -1 where all are there already.
__attribute__((noinline)) static void serve(int epoll, int listener, int clients) {
    struct epoll_event event;
    while (clients > 0 || listener >= 0) {
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            continue;
        int fd = event.data.fd;
        char request;
        if (fd == listener) {
            struct epoll_event in = {.events = EPOLLIN, .data.fd = accept(listener, 0, 0)};
            epoll_ctl(epoll, EPOLL_CTL_ADD, in.data.fd, &in);
            clients++;
        } else if (read(fd, &request, 1) != 1) {
            close(fd);
            if (--clients == 0)
                return;
        } else if (request == 's') {
            slow(fd);
        } else {
            quick(fd);
        }
    }
}

__attribute__((noinline)) static void ask(int fd, char what) {
    char answer;
    uint64_t began = now();
    if (write(fd, &what, 1) != 1 || read(fd, &answer, 1) != 1)
        abort();
    if (what == 's')
        waited_ns += now() - began;
}

static int ends[3];

static void *client(void *number) {
    long which = (long)number;
    prctl(PR_SET_NAME, "client");
    int quick_ones = rounds * (is_busy ? 40 : 4);
    for (int i = 0; i < (which ? quick_ones : rounds); i++) {
        ask(ends[which], which ? 'q' : 's');
        usleep(which ? 2000 : is_busy ? 100000 : 10000);
    }
    close(ends[which]);
    return 0;
}

static void watch(int epoll, int fd) {
    struct epoll_event in = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &in);
}

static void both(void) {
    pthread_t threads[3];
    int epoll = epoll_create1(0);
    for (long i = 0; i < 3; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
            abort();
        ends[i] = pair[1];
        watch(epoll, pair[0]);
        pthread_create(&threads[i], 0, client, (void *)i);
    }
    serve(epoll, -1, 3);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
}

static int at_path(const char *path, int is_server) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    strncpy(at.sun_path, path, sizeof at.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (is_server ? bind(fd, (void *)&at, sizeof at) || listen(fd, 8) : connect(fd, (void *)&at, sizeof at)) {
        perror(path);
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "both";
    uint64_t began = now();
    is_busy = !strcmp(mode, "busy");
    struct sched_param priority = {.sched_priority = 1};
    if (is_busy && sched_setscheduler(0, SCHED_FIFO, &priority))
        return 77;
    if (is_busy || !strcmp(mode, "both")) {
        rounds = argc > 2 ? atoi(argv[2]) : rounds;
        slow_us = argc > 3 ? atol(argv[3]) : slow_us;
        both();
    } else if (!strcmp(mode, "serve") && argc > 2) {
        slow_us = argc > 3 ? atol(argv[3]) : slow_us;
        int epoll = epoll_create1(0), listener = at_path(argv[2], 1);
        watch(epoll, listener);
        serve(epoll, listener, 0);
    } else if (argc > 2) {
        rounds = argc > 3 ? atoi(argv[3]) : rounds;
        int fd = at_path(argv[2], 0);
        for (int i = 0; i < rounds; i++)
            ask(fd, 's');
    }
    printf("wall %lu slow %lu longest %lu waited %lu\n", (unsigned long)(now() - began), (unsigned long)slow_ns,
           (unsigned long)longest_ns, (unsigned long)waited_ns);
    return 0;
}
