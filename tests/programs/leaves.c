// A thread that loses its CPU between its end and its last switch.
// build leaves: -O2 -g -pthread
//
// leaves: its thread `last` waits 20 times for 1 ms and ends last, as a thread that runs only where no other wants the CPU.
// Its end wakes who waits for the program, and another process keeps the CPU busy for 60 ms more: all on one CPU, the
// thread has ended by then, and has not left the CPU. Start it on one CPU (taskset -c 0).
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BUSY_NS 60000000

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void keep_busy(pid_t parent)
{
	uint64_t end;

	while (getppid() == parent)
		;
	end = now_ns() + BUSY_NS;
	while (now_ns() < end)
		;
	_exit(0);
}

/* A kernel that isn't preempted gives up the CPU where it forgets these. */
static void open_own_file(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", gettid());
	if (open(path, O_RDONLY) < 0)
		perror(path);
}

static void *last(void *arg)
{
	struct timespec ms = {0, 1000000};
	struct sched_param param = {0};
	pid_t parent = getpid();

	prctl(PR_SET_NAME, "last");
	open_own_file();
	for (int i = 0; i < 20; i++)
		nanosleep(&ms, 0);
	if (fork() == 0)
		keep_busy(parent);
	sched_setscheduler(0, SCHED_IDLE, &param);
	return arg;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, last, 0);
	pthread_exit(0);
}
