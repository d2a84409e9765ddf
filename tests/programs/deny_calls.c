// Runs a command to which the kernel denies system calls, as containers and hardened kernels do:
//   deny_calls bpf|perf|both CMD [ARG...]
// build deny_calls: -O2
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: deny_calls bpf|perf|both CMD [ARG...]\n");
        return 125;
    }
    // Of one call, both comparisons are with its number.
    unsigned bpf = strcmp(argv[1], "perf") ? SYS_bpf : SYS_perf_event_open;
    unsigned perf = strcmp(argv[1], "bpf") ? SYS_perf_event_open : SYS_bpf;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bpf, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, perf, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("seccomp");
        return 125;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
