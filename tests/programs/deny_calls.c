// Runs a command to which a filter denies system calls, as containers and hardened services do:
//   deny_calls [kill:|module:]CALL[,CALL...] CMD [ARG...]
// CALL is bpf, perf, both, ptrace or timers. With `kill:` the filter ends the process, as systemd's does. With `module:`
// it answers as a security module: EACCES, and only to perf_event_open that the kernel would do (flags other than all)
// and to PTRACE_SEIZE. Else EPERM.
// build deny_calls: -O2
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned numbers[2];
} known[] = {
    {"bpf", {SYS_bpf, SYS_bpf}},
    {"perf", {SYS_perf_event_open, SYS_perf_event_open}},
    {"both", {SYS_bpf, SYS_perf_event_open}},
    {"ptrace", {SYS_ptrace, SYS_ptrace}},
    {"timers", {SYS_timer_create, SYS_timer_create}},
};

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: deny_calls [kill:|module:]CALL[,CALL...] CMD [ARG...]\n");
        return 125;
    }
    unsigned answer = SECCOMP_RET_ERRNO | EPERM;
    if (!strncmp(argv[1], "kill:", 5)) {
        answer = SECCOMP_RET_KILL_PROCESS;
        argv[1] += 5;
    }
    int as_module = !strncmp(argv[1], "module:", 7);
    if (as_module) {
        answer = SECCOMP_RET_ERRNO | EACCES;
        argv[1] += 7;
    }
    struct sock_filter code[40] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    unsigned length = 1;
    for (char *name = strtok(argv[1], ","); name && length < 32; name = strtok(NULL, ",")) {
        unsigned at = 0;
        while (at < sizeof known / sizeof *known && strcmp(known[at].name, name)) at++;
        if (at == sizeof known / sizeof *known) {
            fprintf(stderr, "no call %s\n", name);
            return 125;
        }
        const unsigned *numbers = known[at].numbers;
        // The low half of the argument that tells an earnest call from a trial.
        unsigned argument = numbers[0] == SYS_ptrace ? 0 : 4, trial = numbers[0] == SYS_ptrace ? PTRACE_DETACH : ~0u;
        if (as_module) {
            unsigned from = offsetof(struct seccomp_data, args) + 8 * argument;
            code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[0], 0, 4);
            code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, from);
            code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, trial, 1, 0);
            code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
            code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
            continue;
        }
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[0], 1, 0);
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[1], 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("seccomp");
        return 125;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
