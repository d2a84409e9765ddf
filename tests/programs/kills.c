// `kills MICROSECONDS COMMAND…`: starts COMMAND, kills it with SIGKILL after that time, and waits for all that it leaves
// behind. Prints how each process ended, and `killed` if COMMAND was there to be killed.
// build kills: -O2 -g
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Seconds after which what is left is left for ever.
#define PATIENCE 60

static void give_up(int number) {
    (void)number;
    static const char words[] = "some process goes on\n";
    if (write(1, words, sizeof words - 1) > 0) _exit(3);
    _exit(3);
}

static void tell(pid_t pid) {
    char path[64], name[32] = "?";
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? 0 : read(file, name, sizeof name - 1);
    if (file >= 0) close(file);
    if (bytes > 0) name[bytes - 1] = 0;
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status)) printf("ended %s code %d\n", name, WEXITSTATUS(status));
    else printf("ended %s signal %d\n", name, WTERMSIG(status));
}

int main(int count, char **words) {
    if (count < 3) return 2;
    long micros = atol(words[1]);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(words[2], words + 2);
        _exit(127);
    }
    nanosleep(&(struct timespec){micros / 1000000, micros % 1000000 * 1000}, NULL);
    siginfo_t ended = {0};
    if (waitid(P_PID, pid, &ended, WEXITED | WNOWAIT | WNOHANG) == 0 && ended.si_pid == 0) {
        kill(pid, SIGKILL);
        printf("killed\n");
    }
    signal(SIGALRM, give_up);
    alarm(PATIENCE);
    while (memset(&ended, 0, sizeof ended), waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0) tell(ended.si_pid);
    fflush(stdout);
    return 0;
}
