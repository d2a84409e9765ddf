// A server that sleeps in epoll until its client, a child, asks; almost all of its time is off the CPU.
// build server: -O2 -g
//
// server [REQUESTS [PAUSE_US]]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static int answer(int question) {
    int sum = question;
    for (int i = 0; i < 50000; i++) sum = sum * 31 + i;
    return sum;
}

static void client(int socket, int requests, int pause_us) {
    for (int i = 0; i < requests; i++) {
        int reply;
        usleep((useconds_t)pause_us);
        if (write(socket, &i, sizeof i) != sizeof i || read(socket, &reply, sizeof reply) != sizeof reply) _exit(1);
    }
    _exit(0);
}

__attribute__((noinline)) static void serve(int epoll, int socket) {
    struct epoll_event event;
    int question;
    while (epoll_wait(epoll, &event, 1, -1) == 1) {
        if (read(socket, &question, sizeof question) != sizeof question) return;
        int reply = answer(question);
        if (write(socket, &reply, sizeof reply) != sizeof reply) return;
    }
}

int main(int argc, char **argv) {
    int requests = argc > 1 ? atoi(argv[1]) : 500, pause_us = argc > 2 ? atoi(argv[2]) : 2000;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    if (fork() == 0) {
        close(ends[0]);
        client(ends[1], requests, pause_us);
    }
    close(ends[1]);
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    serve(epoll, ends[0]);
    wait(NULL);
    return 0;
}
