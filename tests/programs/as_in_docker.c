// Runs a command under the system call filter that docker installs by default for a container without capabilities:
//
//   as_in_docker COMMAND [ARGUMENT...]
//
// The profile is a list of what is allowed; here is what it leaves out, with the same answers: EPERM, and ENOSYS for
// clone3, so that C libraries use clone, whose flags the filter can see.
// Source: moby/profiles seccomp/default_linux.go and docs.docker.com/engine/security/seccomp, "Significant syscalls
// blocked by the default profile".
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int denied[] = {
    SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_adjtime, SYS_clock_settime, SYS_delete_module, SYS_fanotify_init,
    SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_get_mempolicy, SYS_init_module,
    SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup, SYS_kcmp, SYS_kexec_file_load, SYS_kexec_load,
    SYS_keyctl, SYS_lookup_dcookie, SYS_mbind, SYS_migrate_pages, SYS_mount, SYS_mount_setattr, SYS_move_mount,
    SYS_move_pages, SYS_nfsservctl, SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open, SYS_pivot_root,
    SYS_quotactl, SYS_reboot, SYS_request_key, SYS_set_mempolicy, SYS_setns, SYS_settimeofday, SYS_swapoff,
    SYS_swapon, SYS_umount2, SYS_unshare, SYS_userfaultfd, SYS_vhangup,
#ifdef __x86_64__
    SYS__sysctl, SYS_create_module, SYS_get_kernel_syms, SYS_ioperm, SYS_iopl, SYS_query_module, SYS_sysfs,
    SYS_uselib, SYS_ustat,
#endif
};

enum { DENIED = sizeof denied / sizeof denied[0] };

int main(int argc, char **argv) {
    struct sock_filter code[2 * DENIED + 16];
    unsigned n = 0;
    unsigned new_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                              CLONE_NEWPID | CLONE_NEWNET;
    if (argc < 2) {
        fprintf(stderr, "as_in_docker COMMAND [ARGUMENT...]\n");
        return 2;
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < DENIED; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, new_namespaces, 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = n, .filter = code};
    // As docker does it, programs may still be set-user-ID; that takes root.
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))) {
        perror("seccomp");
        return 2;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
