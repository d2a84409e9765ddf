// Does what few programs do, one thing a run, and prints how often each function was called: `name count`.
// odd raw_exit|raw_clone|pool|alt_stack|vfork|spawn|deep_exit|deep_quick_exit|set_user|new_root|close_all|no_environment
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLAIN __attribute__((no_instrument_function, patchable_function_entry(0)))
#define COUNTED __attribute__((noinline))

static unsigned long inners, outers, lasts;

COUNTED long inner(long x) { return __atomic_add_fetch(&inners, 1, __ATOMIC_RELAXED), x * 3 + 1; }
COUNTED long outer(long n) {
    __atomic_add_fetch(&outers, 1, __ATOMIC_RELAXED);
    long sum = 0;
    for (long i = 0; i < n; i++) sum += inner(i);
    return sum;
}

PLAIN static void tell(void) {
    char text[128];
    int bytes = snprintf(text, sizeof text, "inner %lu\nouter %lu\nlast %lu\n", inners, outers, lasts);
    if (write(1, text, bytes) < 0) _exit(3);
}
COUNTED void last(int how) {
    lasts++;
    outer(3);
    tell();
    if (how == 1) exit(7);
    if (how == 2) _exit(8);
}

PLAIN static void *ends_raw(void *n) {
    outer((long)n);
    syscall(SYS_exit, 0);
    return NULL;
}
PLAIN static void *short_one(void *n) { return (void *)outer((long)n); }
PLAIN static void pool(void *(*work)(void *), int threads) {
    for (int i = 0; i < threads; i += 10) {
        pthread_t ids[10];
        for (int k = 0; k < 10; k++) pthread_create(&ids[k], NULL, work, (void *)20);
        for (int k = 0; k < 10; k++) pthread_join(ids[k], NULL);
    }
}

PLAIN static void on_signal(int number) { outer(number); }
PLAIN static void alt_stack(void) {
    static char stack[1 << 16];
    stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaltstack(&alt, NULL);
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
}

// A thread that the C library knows nothing of: it has its maker's variables, which waits for its end.
static volatile int is_done;
PLAIN static int raw_thread(void *n) {
    outer((long)n);
    is_done = 1;
    return 0;
}
PLAIN static void raw_clone(void) {
    char *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    clone(raw_thread, stack + (1 << 16), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, (void *)50L);
    while (!is_done) sched_yield();
}

extern char **environ;
PLAIN static void others(int with_vfork) {
    char *words[] = {"true", NULL};
    for (int i = 0; i < 20; i++) {
        pid_t pid;
        if (with_vfork) {
            pid = vfork();
            if (pid == 0) outer(2), execv("/bin/true", words), _exit(1);
        } else if (posix_spawn(&pid, "/bin/true", NULL, NULL, words, environ)) {
            exit(2);
        }
        outer(1);
        waitpid(pid, NULL, 0);
    }
}

PLAIN int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    outer(10);
    if (!strcmp(what, "raw_exit")) pool(ends_raw, 10);
    if (!strcmp(what, "raw_clone")) raw_clone();
    if (!strcmp(what, "pool")) pool(short_one, 1000);
    if (!strcmp(what, "alt_stack")) alt_stack();
    if (!strcmp(what, "vfork")) others(1);
    if (!strcmp(what, "spawn")) others(0);
    if (!strcmp(what, "deep_exit")) last(1);
    if (!strcmp(what, "deep_quick_exit")) last(2);
    if (!strcmp(what, "set_user") && (setgid(65534) || setuid(65534))) return 4;
    if (!strcmp(what, "new_root") && (chroot("/var/empty") && chroot("/mnt"))) return 5;
    int own[16];
    if (!strcmp(what, "close_all")) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        // Files of the program's own take the numbers: nobody else may write there.
        for (int i = 0; i < 16; i++) own[i] = memfd_create("own", 0);
    }
    if (!strcmp(what, "no_environment") && argc == 2) {
        char *words[] = {argv[0], "no_environment", "again", NULL}, *none[] = {NULL};
        execve(argv[0], words, none);
    }
    // After what was done there is more: a file grows past its first chunk, and a thread is new.
    for (int i = 0; i < 20000; i++) outer(5);
    pthread_t id;
    pthread_create(&id, NULL, short_one, (void *)7);
    pthread_join(id, NULL);
    for (int i = 0; i < 16 && !strcmp(what, "close_all"); i++)
        if (lseek(own[i], 0, SEEK_END) != 0) return 6;
    tell();
    return 0;
}
