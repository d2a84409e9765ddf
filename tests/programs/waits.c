// Twenty-five kinds of waits at once, hundreds to thousands a second of each.
// build waits: -O2 -g -pthread
//
// waits [SECONDS [NS]]: each kind waits in a thread and a function of its own, wait_KIND, and is measured around the call:
// wall time less the thread's CPU time, voluntary switches, the longest. Prints `KIND count ns longest_ns all single_ns`
// for each kind that works here. `all` are the voluntary switches of the whole thread, which has the name of the kind.
// `single_ns` is the longest blocked time of a call that switched once: without the time in which the thread waited for
// a CPU. It is 0 where the kernel doesn't count that time. NS is the length of all waits; without it each kind has its own.
#define _GNU_SOURCE
/* Each wait_KIND is to be on the stack of its wait. */
#pragma GCC optimize("no-optimize-sibling-calls")
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KINDS 25

static volatile int stop;
static int ended;

static uint64_t now_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static struct timespec span(uint64_t ns)
{
	return (struct timespec){ns / 1000000000, ns % 1000000000};
}

NOINLINE static void helper_nap(uint64_t ns)
{
	struct timespec t = span(ns);

	nanosleep(&t, 0);
}

/* A thread that finds its lock free again and again is preempted everywhere, and mostly between clock and wait. */
static void let_the_helper_in(void)
{
	helper_nap(100000);
}

/* --- one kind each: the wait, and what ends it after `ns` ---------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
NOINLINE static int wait_mutex(void)
{
	return pthread_mutex_lock(&mutex);
}
static void after_mutex(void)
{
	pthread_mutex_unlock(&mutex);
	let_the_helper_in();
}
static void help_mutex(uint64_t ns)
{
	pthread_mutex_lock(&mutex);
	helper_nap(ns);
	pthread_mutex_unlock(&mutex);
	helper_nap(20000);
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
NOINLINE static int wait_rwlock(void)
{
	return pthread_rwlock_rdlock(&rwlock);
}
static void after_rwlock(void)
{
	pthread_rwlock_unlock(&rwlock);
	let_the_helper_in();
}
static void help_rwlock(uint64_t ns)
{
	pthread_rwlock_wrlock(&rwlock);
	helper_nap(ns);
	pthread_rwlock_unlock(&rwlock);
	helper_nap(20000);
}

static pthread_mutex_t cond_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
NOINLINE static int wait_condvar(void)
{
	return pthread_cond_wait(&cond, &cond_mutex);
}
static void before_condvar(void)
{
	pthread_mutex_lock(&cond_mutex);
}
static void after_condvar(void)
{
	pthread_mutex_unlock(&cond_mutex);
}
static void help_condvar(uint64_t ns)
{
	helper_nap(ns);
	pthread_cond_signal(&cond);
}

static sem_t semaphore;
NOINLINE static int wait_semaphore(void)
{
	return sem_wait(&semaphore);
}
static void help_semaphore(uint64_t ns)
{
	helper_nap(ns);
	sem_post(&semaphore);
}

static pthread_barrier_t barrier;
NOINLINE static int wait_barrier(void)
{
	int got = pthread_barrier_wait(&barrier);

	return got == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : got;
}
static void help_barrier(uint64_t ns)
{
	helper_nap(ns);
	pthread_barrier_wait(&barrier);
}

static uint64_t nap_ns;
NOINLINE static int wait_nanosleep(void)
{
	struct timespec t = span(nap_ns);

	return nanosleep(&t, 0);
}

NOINLINE static int wait_deadline(void)
{
	struct timespec t = span(now_of(CLOCK_MONOTONIC) + nap_ns);

	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
}

/* Pipes by kind; a byte ends the wait. */
static int pipes[KINDS][2];
static char byte[KINDS];
static void take(int which)
{
	if (read(pipes[which][0], &byte[which], 1) != 1)
		abort();
}
static void give(int which, uint64_t ns)
{
	helper_nap(ns);
	if (write(pipes[which][1], "x", 1) != 1)
		abort();
}

enum { POLL, SELECT, EPOLL, PIPE };
NOINLINE static int wait_poll(void)
{
	struct pollfd of = {pipes[POLL][0], POLLIN, 0};

	return poll(&of, 1, -1) - 1;
}
static void after_poll(void)
{
	take(POLL);
}
static void help_poll(uint64_t ns)
{
	give(POLL, ns);
}

NOINLINE static int wait_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipes[SELECT][0], &set);
	return select(pipes[SELECT][0] + 1, &set, 0, 0, 0) - 1;
}
static void after_select(void)
{
	take(SELECT);
}
static void help_select(uint64_t ns)
{
	give(SELECT, ns);
}

static int epoll;
NOINLINE static int wait_epoll(void)
{
	struct epoll_event got;

	return epoll_wait(epoll, &got, 1, -1) - 1;
}
static void after_epoll(void)
{
	take(EPOLL);
}
static void help_epoll(uint64_t ns)
{
	give(EPOLL, ns);
}

NOINLINE static int wait_pipe_read(void)
{
	return read(pipes[PIPE][0], &byte[PIPE], 1) - 1;
}
static void help_pipe_read(uint64_t ns)
{
	give(PIPE, ns);
}

static int full[2];
static char page[4096];
NOINLINE static int wait_pipe_write(void)
{
	return write(full[1], page, sizeof(page)) - sizeof(page);
}
static void help_pipe_write(uint64_t ns)
{
	char got[sizeof(page)];

	helper_nap(ns);
	if (read(full[0], got, sizeof(got)) < 1)
		abort();
}

static int ends[2];
NOINLINE static int wait_recv(void)
{
	char got;

	return recv(ends[0], &got, 1, 0) - 1;
}
static void help_recv(uint64_t ns)
{
	helper_nap(ns);
	send(ends[1], "x", 1, 0);
}

static int event;
NOINLINE static int wait_eventfd(void)
{
	uint64_t got;

	return read(event, &got, 8) - 8;
}
static void help_eventfd(uint64_t ns)
{
	uint64_t one = 1;

	helper_nap(ns);
	if (write(event, &one, 8) != 8)
		abort();
}

static int timer;
NOINLINE static int wait_timerfd(void)
{
	uint64_t got;

	return read(timer, &got, 8) - 8;
}

static volatile pthread_t signalled;
static volatile int has_signalled;
NOINLINE static int wait_sigwait(void)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigwait(&set, &got);
}
static void before_sigwait(void)
{
	signalled = pthread_self();
	has_signalled = 1;
}
static void help_sigwait(uint64_t ns)
{
	helper_nap(ns);
	if (has_signalled)
		pthread_kill(signalled, SIGUSR1);
}

static int word;
NOINLINE static int wait_futex(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0) && errno != EAGAIN;
}
static void help_futex(uint64_t ns)
{
	helper_nap(ns);
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static pid_t child;
static char child_stack[16384] __attribute__((aligned(16)));
static int nap_in_child(void *of)
{
	struct timespec t = span(nap_ns);

	(void)of;
	syscall(SYS_nanosleep, &t, 0);
	return 0;
}
/* With the memory of its parent: page faults after a copy of it would be waits of all kinds. */
static void before_waitpid(void)
{
	child = clone(nap_in_child, child_stack + sizeof(child_stack), CLONE_VM | SIGCHLD, 0);
}
NOINLINE static int wait_waitpid(void)
{
	return waitpid(child, 0, 0) - child;
}

struct message {
	long kind;
	char text[1];
};
static int queue;
NOINLINE static int wait_msgrcv(void)
{
	struct message got;

	return msgrcv(queue, &got, 1, 0, 0) - 1;
}
static void help_msgrcv(uint64_t ns)
{
	struct message sent = {1, "x"};

	helper_nap(ns);
	msgsnd(queue, &sent, 1, IPC_NOWAIT);
}

static int semaphores;
NOINLINE static int wait_semop(void)
{
	struct sembuf down = {0, -1, 0};

	return semop(semaphores, &down, 1);
}
static void help_semop(uint64_t ns)
{
	struct sembuf up = {0, 1, 0};

	helper_nap(ns);
	semop(semaphores, &up, 1);
}

/*
 * A kind lets go of a file lock at the same instruction, stack pointer and descriptor as it takes it: one place with two
 * stacks, which differ in a return address.
 */
static int flocked[2];
NOINLINE static int wait_flock(void)
{
	return flock(flocked[0], LOCK_EX);
}
NOINLINE static int unlock_file(int file)
{
	return flock(file, LOCK_UN);
}
static void after_flock(void)
{
	unlock_file(flocked[0]);
	let_the_helper_in();
}
static void help_flock(uint64_t ns)
{
	flock(flocked[1], LOCK_EX);
	helper_nap(ns);
	flock(flocked[1], LOCK_UN);
	helper_nap(20000);
}

static int fcntled[2];
static int lock_range(int file, int kind)
{
	struct flock of = {.l_type = kind, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(file, F_OFD_SETLKW, &of);
}
NOINLINE static int wait_fcntl(void)
{
	struct flock of = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fcntled[0], F_OFD_SETLKW, &of);
}
NOINLINE static int unlock_range(int file)
{
	return lock_range(file, F_UNLCK);
}
static void after_fcntl(void)
{
	unlock_range(fcntled[0]);
	let_the_helper_in();
}
static void help_fcntl(uint64_t ns)
{
	lock_range(fcntled[1], F_WRLCK);
	helper_nap(ns);
	lock_range(fcntled[1], F_UNLCK);
	helper_nap(20000);
}

static char *faulting;
static int faults;
NOINLINE static int wait_fault(void)
{
	return *(volatile char *)faulting;
}
static void after_fault(void)
{
	madvise(faulting, 4096, MADV_DONTNEED);
}
static void help_fault(uint64_t ns)
{
	struct pollfd of = {faults, POLLIN, 0};
	struct uffd_msg got;
	struct uffdio_zeropage zero = {.range = {(uintptr_t)faulting, 4096}};

	if (poll(&of, 1, 100) < 1 || read(faults, &got, sizeof(got)) < 1)
		return;
	helper_nap(ns);
	ioctl(faults, UFFDIO_ZEROPAGE, &zero);
}

static pthread_t joined;
static void *nap_once(void *ns)
{
	helper_nap((uintptr_t)ns);
	return 0;
}
static void before_join(void)
{
	if (pthread_create(&joined, 0, nap_once, (void *)(uintptr_t)nap_ns))
		abort();
}
NOINLINE static int wait_join(void)
{
	return pthread_join(joined, 0);
}

static int listening, accepted;
static struct sockaddr_un address;
NOINLINE static int wait_accept(void)
{
	accepted = accept(listening, 0, 0);
	return accepted < 0;
}
static void after_accept(void)
{
	close(accepted);
}
static void help_accept(uint64_t ns)
{
	int file = socket(AF_UNIX, SOCK_STREAM, 0);

	helper_nap(ns);
	connect(file, (void *)&address, sizeof(sa_family_t) + 20);
	close(file);
}

/* --- all of them ------------------------------------------------------------------------------------------------ */

struct kind {
	const char *name;
	int (*wait)(void);
	void (*before)(void);
	void (*after)(void);
	void (*help)(uint64_t ns);
	uint64_t ns;
	uint64_t count, sum, longest, all, single;
	int broken;
} kinds[KINDS] = {
	{"mutex", wait_mutex, 0, after_mutex, help_mutex, 700000},
	{"rwlock", wait_rwlock, 0, after_rwlock, help_rwlock, 900000},
	{"condvar", wait_condvar, before_condvar, after_condvar, help_condvar, 300000},
	{"semaphore", wait_semaphore, 0, 0, help_semaphore, 400000},
	{"barrier", wait_barrier, 0, 0, help_barrier, 1100000},
	{"nanosleep", wait_nanosleep, 0, 0, 0, 0},
	{"deadline", wait_deadline, 0, 0, 0, 0},
	{"poll", wait_poll, 0, after_poll, help_poll, 600000},
	{"select", wait_select, 0, after_select, help_select, 2100000},
	{"epoll", wait_epoll, 0, after_epoll, help_epoll, 150000},
	{"pipe_read", wait_pipe_read, 0, 0, help_pipe_read, 250000},
	{"pipe_write", wait_pipe_write, 0, 0, help_pipe_write, 1300000},
	{"recv", wait_recv, 0, 0, help_recv, 800000},
	{"eventfd", wait_eventfd, 0, 0, help_eventfd, 1900000},
	{"timerfd", wait_timerfd, 0, 0, 0, 0},
	{"sigwait", wait_sigwait, before_sigwait, 0, help_sigwait, 2500000},
	{"futex", wait_futex, 0, 0, help_futex, 500000},
	{"waitpid", wait_waitpid, before_waitpid, 0, 0, 0},
	{"msgrcv", wait_msgrcv, 0, 0, help_msgrcv, 1500000},
	{"semop", wait_semop, 0, 0, help_semop, 1700000},
	{"flock", wait_flock, 0, after_flock, help_flock, 2700000},
	{"fcntl", wait_fcntl, 0, after_fcntl, help_fcntl, 3000000},
	{"fault", wait_fault, 0, after_fault, help_fault, 1000000},
	{"join", wait_join, before_join, 0, 0, 0},
	{"accept", wait_accept, 0, after_accept, help_accept, 2300000},
};

static struct rusage switches_now(void)
{
	struct rusage of;

	getrusage(RUSAGE_THREAD, &of);
	return of;
}

/* ns that the thread was runnable without a CPU: the second number of its schedstat. */
static uint64_t runnable_ns(int schedstat)
{
	char text[64] = "";

	if (pread(schedstat, text, sizeof text - 1, 0) <= 0)
		return 0;
	return strtoull(strchrnul(text, ' '), 0, 10);
}

static void *waiter(void *of)
{
	struct kind *kind = of;
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

	pthread_setname_np(pthread_self(), kind->name);
	while (!stop) {
		struct rusage before, after;
		uint64_t wall, cpu, runnable, ran;
		int failed;

		if (kind->before)
			kind->before();
		ran = runnable = runnable_ns(schedstat);
		before = switches_now();
		/* The wall clock is read last and first: a preemption at the other's system call is none of the wait's. */
		cpu = now_of(CLOCK_THREAD_CPUTIME_ID);
		wall = now_of(CLOCK_MONOTONIC);
		failed = kind->wait();
		wall = now_of(CLOCK_MONOTONIC) - wall;
		cpu = now_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
		after = switches_now();
		runnable = runnable_ns(schedstat) - runnable;
		wall = wall > cpu ? wall - cpu : 0;
		if (kind->after)
			kind->after();
		if (failed) {
			kind->broken = 1;
			break;
		}
		/* Not off the CPU: the rest is what the clocks themselves cost. */
		if (after.ru_nvcsw == before.ru_nvcsw && after.ru_nivcsw == before.ru_nivcsw)
			continue;
		kind->count += after.ru_nvcsw - before.ru_nvcsw;
		kind->sum += wall;
		if (wall > kind->longest)
			kind->longest = wall;
		/* What else it waited for a CPU only makes this less. */
		if (ran && after.ru_nvcsw - before.ru_nvcsw == 1 && wall > runnable + kind->single)
			kind->single = wall - runnable;
	}
	kind->all = switches_now().ru_nvcsw;
	__atomic_add_fetch(&ended, 1, __ATOMIC_RELEASE);
	return 0;
}

static void *helper(void *of)
{
	struct kind *kind = of;

	pthread_setname_np(pthread_self(), "helper");
	for (;;)
		kind->help(kind->ns);
	return 0;
}

static int open_twice(int of[2], const char *name)
{
	of[0] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	of[1] = open(name, O_RDWR | O_CLOEXEC);
	unlink(name);
	return of[0] < 0 || of[1] < 0;
}

static void prepare_faults(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register all = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	faulting = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	faults = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	all.range.start = (uintptr_t)faulting;
	all.range.len = 4096;
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &all))
		kinds[22].wait = 0;
}

static int prepare(uint64_t timer_ns)
{
	struct itimerspec every = {span(timer_ns), span(timer_ns)};
	struct epoll_event of = {.events = EPOLLIN};
	char name[2][64];
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	for (int i = 0; i < 4; i++)
		if (pipe(pipes[i]))
			return 1;
	sem_init(&semaphore, 0, 0);
	pthread_barrier_init(&barrier, 0, 2);
	epoll = epoll_create1(0);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[EPOLL][0], &of))
		return 1;
	if (pipe(full) || fcntl(full[1], F_SETPIPE_SZ, 4096) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	event = eventfd(0, 0);
	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	timerfd_settime(timer, 0, &every, 0);
	queue = msgget(IPC_PRIVATE, 0600);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	for (int i = 0; i < 2; i++)
		snprintf(name[i], sizeof(name[i]), "waits-lock-%d-%d", i, getpid());
	if (open_twice(flocked, name[0]) || open_twice(fcntled, name[1]))
		return 1;
	prepare_faults();
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path + 1, 20, "waits-%013d", getpid());
	listening = socket(AF_UNIX, SOCK_STREAM, 0);
	return bind(listening, (void *)&address, sizeof(sa_family_t) + 20) || listen(listening, 8);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 3;
	uint64_t ns = argc > 2 ? strtoull(argv[2], 0, 10) : 0;
	pthread_t thread;
	int started = 0;

	nap_ns = ns ? ns : 1000000;
	for (int i = 0; ns && i < KINDS; i++)
		kinds[i].ns = ns;
	if (prepare(ns ? ns : 1200000)) {
		perror("waits");
		return 1;
	}
	for (int i = 0; i < KINDS; i++) {
		if (!kinds[i].wait)
			continue;
		started++;
		if (pthread_create(&thread, 0, waiter, &kinds[i]) ||
		    (kinds[i].help && pthread_create(&thread, 0, helper, &kinds[i])))
			return 1;
	}
	usleep(seconds * 1e6);
	stop = 1;
	/* Those that still wait end soon, for their helpers go on: a starved one's last wait may be a long one. */
	while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < started)
		usleep(1000);
	msgctl(queue, IPC_RMID, 0);
	semctl(semaphores, 0, IPC_RMID);
	for (int i = 0; i < KINDS; i++)
		if (kinds[i].wait && !kinds[i].broken)
			printf("%s %llu %llu %llu %llu %llu\n", kinds[i].name, (unsigned long long)kinds[i].count,
			       (unsigned long long)kinds[i].sum, (unsigned long long)kinds[i].longest,
			       (unsigned long long)kinds[i].all, (unsigned long long)kinds[i].single);
	fflush(stdout);
	_exit(0);
}
