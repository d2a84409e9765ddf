// Does what a sampler inside a program could disturb, and prints only what is the same each time; exits with 7.
// `undisturbed MODE`: prof timer value wait fd blocked raw altstack vfork clone threads exec setuid interrupted sandbox
// build undisturbed: -O2 -g -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long ticks;
static void tick(int number) {
    (void)number;
    ticks++;
}

static long long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noinline)) static void compute(long ms) {
    for (long long end = cpu_ns() + ms * 1000000LL; cpu_ns() < end;)
        for (volatile int i = 0; i < 2000; i++) continue;
}

static void check(const char *what, int holds) { printf("%s: %s\n", what, holds ? "yes" : "NO"); }

static void on(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(number, &action, NULL);
}

// Its own profiling timer goes on as before.
static void prof(void) {
    on(SIGPROF, tick);
    struct itimerval often = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_PROF, &often, NULL);
    compute(1000);
    check("20 to 80 signals of SIGPROF", ticks >= 20 && ticks <= 80);
}

// So do timers with signals of its own choice, real-time ones too.
static void timer(void) {
    timer_t timers[3];
    for (int i = 0; i < 3; i++) {
        on(SIGRTMIN + i, tick);
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + i};
        timer_create(i ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &event, &timers[i]);
        struct itimerspec often = {{0, 20000000}, {0, 20000000}};
        timer_settime(timers[i], 0, &often, NULL);
    }
    compute(1000);
    for (int i = 0; i < 3; i++) timer_delete(timers[i]);
    check("at least 60 signals of its timers", ticks >= 60);
}

static void *send_values(void *to) {
    for (int i = 0; i < 1000; i++) {
        while (pthread_sigqueue(*(pthread_t *)to, SIGRTMIN + i % 4, (union sigval){.sival_int = i})) sched_yield();
        if (i % 50 == 0) compute(5);
    }
    return NULL;
}

// All signals are blocked and taken one by one.
static void wait_for(int by_descriptor) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_t self = pthread_self(), sender;
    pthread_create(&sender, NULL, send_values, &self);
    int file = signalfd(-1, &all, 0);
    long sum = 0, others = 0, failed = 0;
    for (int i = 0; i < 1000; i++) {
        siginfo_t info = {0};
        struct signalfd_siginfo read_info = {0};
        if (by_descriptor) {
            failed += read(file, &read_info, sizeof read_info) != sizeof read_info;
            info.si_signo = (int)read_info.ssi_signo;
            info.si_value.sival_int = read_info.ssi_int;
        } else {
            failed += sigwaitinfo(&all, &info) < 0;
        }
        if (info.si_signo >= SIGRTMIN && info.si_signo < SIGRTMIN + 4) sum += info.si_value.sival_int;
        else others++;
        if (i % 50 == 0) compute(5);
    }
    pthread_join(sender, NULL);
    printf("sum %ld, others %ld, failed %ld\n", sum, others, failed);
}

static void blocked(int raw) {
    unsigned long all = ~0UL, now = 0;
    sigset_t set;
    sigfillset(&set);
    if (raw) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
    else pthread_sigmask(SIG_SETMASK, &set, NULL);
    compute(700);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &now, 8);
    // What the C library keeps to itself (32 and 33) is not the program's to see.
    printf("mask %lx\n", now | 3UL << 31);
    struct timespec none = {0, 0};
    siginfo_t info = {0};
    errno = 0;
    int got = sigtimedwait(&set, &info, &none);
    printf("pending %d, %s\n", got, strerror(errno));
    if (raw) {
        unsigned long zero = 0;
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &zero, NULL, 8);
    }
}

static volatile int is_on_stack;
static char *low, *high;
static void on_other_stack(int number) {
    (void)number;
    char here;
    is_on_stack = &here >= low && &here < high;
    compute(300);
}

// The alternate stack is as large as it must be, and what is below it is not touched.
static void altstack(void) {
    long size = sysconf(_SC_MINSIGSTKSZ) + 4096, page = 4096;
    size = (size + page - 1) / page * page;
    low = mmap(NULL, (size_t)(size + 2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(low, (size_t)page, PROT_NONE);
    low += page;
    high = low + size;
    stack_t stack = {.ss_sp = low, .ss_size = (size_t)size};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_other_stack, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    compute(300);
    raise(SIGUSR1);
    compute(300);
    check("handler on its own stack", is_on_stack);
    stack_t after;
    sigaltstack(NULL, &after);
    check("same stack afterwards", after.ss_sp == low && after.ss_size == (size_t)size && !after.ss_flags);
}

extern char **environ;
static void many_children(void) {
    long sum = 0;
    for (int i = 0; i < 60; i++) {
        int status = 0;
        pid_t pid;
        char *const words[] = {"sh", "-c", i % 2 ? "exit 3" : "exit 4", NULL};
        if (i % 3 == 0) {
            posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ);
        } else {
            pid = vfork();
            if (pid == 0) {
                execv("/bin/sh", words);
                _exit(127);
            }
        }
        if (waitpid(pid, &status, 0) != pid) printf("waitpid: %s\n", strerror(errno));
        sum += WEXITSTATUS(status);
        compute(3);
    }
    printf("sum of codes %ld, errno %d\n", sum, errno);
}

static volatile long shared;
static int cloned(void *argument) {
    for (int i = 0; i < 100; i++) {
        for (volatile int k = 0; k < 2000000; k++) continue;
        shared++;
    }
    return (int)(long)argument;
}

// A process that shares memory, but is no thread.
static void cloned_processes(void) {
    pid_t pids[3];
    for (long i = 0; i < 3; i++) {
        char *stack = malloc(1 << 16);
        pids[i] = clone(cloned, stack + (1 << 16), CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, (void *)(i + 20));
    }
    compute(300);
    for (int i = 0; i < 3; i++) {
        int status = 0;
        pid_t pid = waitpid(pids[i], &status, 0);
        printf("clone %d: code %d\n", i, pid == pids[i] && WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
}

static pthread_barrier_t barrier;
static void *brief(void *argument) {
    compute(1);
    pthread_barrier_wait(&barrier);
    return (void *)((long)argument * 2);
}

static void many_threads(void) {
    enum { THREADS = 2000 };
    static pthread_t ids[THREADS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&barrier, NULL, THREADS);
    long sum = 0;
    for (long i = 0; i < THREADS; i++) {
        int error = pthread_create(&ids[i], &small, brief, (void *)i);
        if (error) {
            printf("pthread_create %ld: %s\n", i, strerror(error));
            exit(1);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        void *value = NULL;
        pthread_join(ids[i], &value);
        sum += (long)value;
    }
    printf("sum %ld\n", sum);
}

static void exec_chain(const char *self, int left) {
    compute(10);
    if (left == 0) {
        printf("end of the chain, pid as before: %s\n", atoi(getenv("CHAIN_PID")) == getpid() ? "yes" : "NO");
        return;
    }
    char text[16];
    snprintf(text, sizeof text, "%d", getpid());
    setenv("CHAIN_PID", text, 0);
    snprintf(text, sizeof text, "%d", left - 1);
    execl("/proc/self/exe", self, "exec", text, (char *)NULL);
    perror("exec");
    exit(1);
}

static void *spin(void *unused) {
    compute(500);
    return unused;
}

// glibc changes the user of all threads with a signal of its own, which is also that of the timers.
static void change_user(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, spin, NULL);
    compute(100);
    int is_root = getuid() == 0;
    for (int i = 0; i < 50; i++) {
        if (is_root && (setegid(1000 + i) || setegid(0))) perror("setegid");
        compute(1);
    }
    if (is_root && (setgid(65534) || setuid(65534))) perror("setuid");
    long same = 0;
    char path[64], text[4096];
    for (int round = 0; round < 1; round++) {
        snprintf(path, sizeof path, "/proc/self/task");
        int file = open("/proc/thread-self/status", O_RDONLY);
        ssize_t bytes = read(file, text, sizeof text - 1);
        text[bytes > 0 ? bytes : 0] = 0;
        close(file);
        same += strstr(text, "Uid:\t65534\t65534") != NULL;
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("nobody: %ld\n", same);
}

// Calls that end with EINTR whatever the handler's flags: nothing but its own signal may end them.
static void interrupted(void) {
    int events = epoll_create1(0), failed = 0;
    for (int i = 0; i < 300; i++) {
        struct epoll_event event;
        struct timespec brief = {0, 1000000};
        compute(2);
        failed += epoll_wait(events, &event, 1, 1) < 0;
        failed += nanosleep(&brief, NULL) < 0;
        failed += usleep(500) < 0;
    }
    printf("failed %d, errno %d\n", failed, errno);
}

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

// It forbids itself all system calls but two, on pain of death, and computes.
static void sandbox(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    compute(100);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return;
    for (volatile long i = 0; i < 600000000; i++) continue;
    static const char words[] = "alive\n";
    if (write(1, words, sizeof words - 1) > 0) _exit(7);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    errno = 0;
    if (!strcmp(mode, "prof")) prof();
    else if (!strcmp(mode, "timer")) timer();
    else if (!strcmp(mode, "wait")) wait_for(0);
    else if (!strcmp(mode, "fd")) wait_for(1);
    else if (!strcmp(mode, "blocked")) blocked(0);
    else if (!strcmp(mode, "raw")) blocked(1);
    else if (!strcmp(mode, "altstack")) altstack();
    else if (!strcmp(mode, "vfork")) many_children();
    else if (!strcmp(mode, "clone")) cloned_processes();
    else if (!strcmp(mode, "threads")) many_threads();
    else if (!strcmp(mode, "exec")) exec_chain(argv[0], argc > 2 ? atoi(argv[2]) : 30);
    else if (!strcmp(mode, "setuid")) change_user();
    else if (!strcmp(mode, "interrupted")) interrupted();
    else if (!strcmp(mode, "sandbox")) sandbox();
    else return 2;
    fflush(stdout);
    return 7;
}
