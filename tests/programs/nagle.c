// Messages of two small writes over TCP on this machine: the second is kept until the first is acknowledged, which the
// receiver does 40 ms later.
//
// build nagle: -O1 -g
//
//   nagle [MESSAGES [nodelay]]
//
// nodelay: the sender sets TCP_NODELAY. At the end it prints its own measurement, ns: wall, and how long the receiver
// waited for second parts.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void must(int works) {
    if (!works)
        abort();
}

__attribute__((noinline)) static uint64_t receive(int socket) {
    char byte;
    uint64_t waited = 0;
    while (read(socket, &byte, 1) == 1) {
        uint64_t began = now();
        must(read(socket, &byte, 1) == 1);
        waited += now() - began;
        must(write(socket, &byte, 1) == 1);
    }
    return waited;
}

__attribute__((noinline)) static void send_message(int socket) {
    char byte = 1;
    must(write(socket, &byte, 1) == 1);
    must(write(socket, &byte, 1) == 1);
    must(read(socket, &byte, 1) == 1);
}

int main(int argc, char **argv) {
    int messages = argc > 1 ? atoi(argv[1]) : 40, one = argc > 2 && !strcmp(argv[2], "nodelay");
    uint64_t *waited = mmap(0, sizeof *waited, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), connection;
    must(bind(listener, (void *)&at, size) == 0 && listen(listener, 1) == 0);
    must(getsockname(listener, (void *)&at, &size) == 0);
    uint64_t began = now();
    pid_t child = fork();
    if (child == 0) {
        *waited = receive(accept(listener, 0, 0));
        _exit(0);
    }
    connection = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(connection, (void *)&at, sizeof at) == 0);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < messages; i++)
        send_message(connection);
    close(connection);
    waitpid(child, 0, 0);
    printf("wall %lu waited %lu\n", (unsigned long)(now() - began), (unsigned long)*waited);
    return 0;
}
