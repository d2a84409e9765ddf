// Many short processes, a bounded number at once: each lives about a millisecond and has a name of its own.
// build forks: -O2 -g
//
// forks [PROCESSES [AT_ONCE]]
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static void short_life(int number) {
    char name[16];
    snprintf(name, sizeof name, "short-%d", number % 8);
    prctl(PR_SET_NAME, name);
    volatile long sum = 1;
    for (int i = 0; i < 1000000; i++) sum = sum * 31 + i;
    _exit(0);
}

int main(int argc, char **argv) {
    int processes = argc > 1 ? atoi(argv[1]) : 1000, at_once = argc > 2 ? atoi(argv[2]) : 8, alive = 0;
    for (int i = 0; i < processes; i++) {
        if (alive == at_once && wait(NULL) > 0) alive--;
        pid_t child = fork();
        if (child == 0) short_life(i);
        if (child > 0) alive++;
    }
    while (wait(NULL) > 0) {}
    printf("%d\n", processes);
    return 0;
}
