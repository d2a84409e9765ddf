//! The calls by name, each with its arguments in the table's own notation.

/// A line for each system call: its name, its arguments ([`crate::argument::ArgKind::parse`]), and after `=` what it returns.
pub(super) const CALLS: &str = "\
read fd out u
write fd in2 u
open path O mode = fd
close fd
stat path stat
fstat fd stat
lstat path stat
poll pollfds u d
lseek fd d seek
mmap p u prot mapflags fd x = p
mprotect p u prot
munmap p u
brk p = p
rt_sigaction sig p p u
rt_sigprocmask sighow sigset p u
rt_sigreturn
ioctl fd ioctl x
pread64 fd out u d
pwrite64 fd in2 u d
readv fd iov2 d
writev fd iov2 d
access path access
pipe fds
select d p p p timeval
sched_yield
mremap p u u x p = p
msync p u x
mincore p u p
madvise p u madvice
shmget x u x
shmat d p x = p
shmctl d d p
dup fd = fd
dup2 fd d = fd
pause
nanosleep timespec p
getitimer d p
alarm u
setitimer d p p
getpid
sendfile fd fd p u
socket family socktype d = fd
connect fd addr2
accept fd addrout2 p = fd
sendto fd in2 u msgflags addr5 d
recvfrom fd out u msgflags addrout5 p
sendmsg fd msg msgflags
recvmsg fd msg msgflags
shutdown fd d
bind fd addr2
listen fd d
getsockname fd addrout2 p
getpeername fd addrout2 p
socketpair family socktype d fds3
setsockopt fd sol d p d
getsockopt fd sol d p p
clone clone p p p p
fork
vfork
execve path argv p
exit d
wait4 d p wait p
kill d sig
uname p
semget x d x
semop d p u
semctl d d d x
shmdt p
msgget x x
msgsnd d p u x
msgrcv d p u d x
msgctl d d p
fcntl fd fcntl x
flock fd lock
fsync fd
fdatasync fd
truncate path u
ftruncate fd u
getdents fd p u
getcwd outstr u
chdir path
fchdir fd
rename path path
mkdir path mode
rmdir path
creat path mode = fd
link path path
unlink path
symlink path path
readlink path out u
chmod path mode
fchmod fd mode
chown path d d
fchown fd d d
lchown path d d
umask mode = mode
gettimeofday p p
getrlimit rlimit p
getrusage d p
sysinfo p
times p
ptrace d d p p
getuid
syslog d p d
getgid
setuid d
setgid d
geteuid
getegid
setpgid d d
getppid
getpgrp
setsid
setreuid d d
setregid d d
getgroups d p
setgroups d p
setresuid d d d
getresuid p p p
setresgid d d d
getresgid p p p
getpgid d
setfsuid d
setfsgid d
getsid d
capget p p
capset p p
rt_sigpending p u
rt_sigtimedwait sigset p timespec u
rt_sigqueueinfo d sig p
rt_sigsuspend sigset u
sigaltstack p p
utime path p
mknod path mode x
uselib path
personality x
ustat x p
statfs path p
fstatfs fd p
sysfs d x x
getpriority d d
setpriority d d d
sched_setparam d p
sched_getparam d p
sched_setscheduler d d p
sched_getscheduler d
sched_get_priority_max d
sched_get_priority_min d
sched_rr_get_interval d p
mlock p u
munlock p u
mlockall x
munlockall
vhangup
modify_ldt d p u
pivot_root path path
_sysctl p
prctl prctl x x x x
arch_prctl archprctl p
adjtimex p
setrlimit rlimit p
chroot path
sync
acct path
settimeofday p p
mount path path str x p
umount2 path x
swapon path x
swapoff path
reboot x x x p
sethostname str u
setdomainname str u
iopl d
ioperm u u d
create_module str u
init_module p u str
delete_module str x
quotactl x path d p
gettid
readahead fd d u
setxattr path str p u x
lsetxattr path str p u x
fsetxattr fd str p u x
getxattr path str p u
lgetxattr path str p u
fgetxattr fd str p u
listxattr path p u
llistxattr path p u
flistxattr fd p u
removexattr path str
lremovexattr path str
fremovexattr fd str
tkill d sig
time p
futex p futex d p p x
sched_setaffinity d u p
sched_getaffinity d u p
io_setup u p
io_destroy x
io_getevents x d d p timespec
io_submit x d p
io_cancel x p p
epoll_create d = fd
remap_file_pages p u prot u x
getdents64 fd p u
set_tid_address p
restart_syscall
semtimedop d p u timespec
fadvise64 fd d u advice
timer_create clock p p
timer_settime d x p p
timer_gettime d p
timer_getoverrun d
timer_delete d
clock_settime clock timespec
clock_gettime clock timespecout
clock_getres clock timespecout
clock_nanosleep clock x timespec p
exit_group d
epoll_wait fd p d d
epoll_ctl fd epollop fd epollevent
tgkill d d sig
utimes path p
mbind p u d p u x
set_mempolicy d p u
get_mempolicy p p u p x
mq_open str O mode p = fd
mq_unlink str
mq_timedsend fd p u u timespec
mq_timedreceive fd p u p timespec
mq_notify fd p
mq_getsetattr fd p p
kexec_load x u p x
waitid d d p wait p
add_key str str p u d
request_key str str str d
keyctl d x x x x
ioprio_set d d d
ioprio_get d d
inotify_init = fd
inotify_add_watch fd path x
inotify_rm_watch fd d
migrate_pages d u p p
openat dirfd path O mode = fd
mkdirat dirfd path mode
mknodat dirfd path mode x
fchownat dirfd path d d atflags
futimesat dirfd path p
newfstatat dirfd path stat atflags
unlinkat dirfd path atflags
renameat dirfd path dirfd path
linkat dirfd path dirfd path atflags
symlinkat path dirfd path
readlinkat dirfd path out u
fchmodat dirfd path mode
faccessat dirfd path access
pselect6 d p p p timespec p
ppoll pollfds u timespec sigset u
unshare clone
set_robust_list p u
get_robust_list d p p
splice fd p fd p u x
tee fd fd u x
sync_file_range fd d d x
vmsplice fd iov2 u x
move_pages d u p p p x
utimensat dirfd path p atflags
epoll_pwait fd p d d sigset u
signalfd fd sigset u = fd
timerfd_create clock fdflags = fd
eventfd u = fd
fallocate fd x d d
timerfd_settime fd x p p
timerfd_gettime fd p
accept4 fd addrout2 p socktype = fd
signalfd4 fd sigset u fdflags = fd
eventfd2 u fdflags = fd
epoll_create1 fdflags = fd
dup3 fd d fdflags = fd
pipe2 fds fdflags
inotify_init1 fdflags = fd
preadv fd iov2 d d d
pwritev fd iov2 d d d
rt_tgsigqueueinfo d d sig p
perf_event_open p d d fd x = fd
recvmmsg fd p u msgflags timespec
fanotify_init x x = fd
fanotify_mark fd x x dirfd path
prlimit64 d rlimit p p
name_to_handle_at dirfd path p p atflags
open_by_handle_at fd p O = fd
clock_adjtime clock p
syncfs fd
sendmmsg fd p u msgflags
setns fd clone
getcpu p p p
process_vm_readv d p u p u x
process_vm_writev d p u p u x
kcmp d d d x x
finit_module fd str x
sched_setattr d p x
sched_getattr d p u x
renameat2 dirfd path dirfd path x
seccomp x x p
getrandom p u random
memfd_create str x = fd
kexec_file_load fd fd u p x
bpf d p u
execveat dirfd path argv p atflags
userfaultfd fdflags = fd
membarrier d x d
mlock2 p u x
copy_file_range fd p fd p u x
preadv2 fd iov2 d d d x
pwritev2 fd iov2 d d d x
pkey_mprotect p u prot d
pkey_alloc x x
pkey_free d
statx dirfd path atflags x p
io_pgetevents x d d p timespec p
rseq p u x x
pidfd_send_signal fd sig p x
io_uring_setup u p = fd
io_uring_enter fd u u x p u
io_uring_register fd x p u
open_tree dirfd path x = fd
move_mount dirfd path dirfd path x
fsopen str x = fd
fsconfig fd d str p d
fsmount fd x x = fd
fspick dirfd path x = fd
pidfd_open d fdflags = fd
clone3 p u
close_range d d x
openat2 dirfd path p u = fd
pidfd_getfd fd d x = fd
faccessat2 dirfd path access atflags
process_madvise fd p u madvice x
epoll_pwait2 fd p d timespec sigset u
mount_setattr dirfd path atflags p u
landlock_create_ruleset p u x = fd
landlock_add_rule fd d p x
landlock_restrict_self fd x
memfd_secret x = fd
process_mrelease fd x
futex_waitv p u x timespec clock
cachestat fd p p x
fchmodat2 dirfd path mode atflags
map_shadow_stack p u x = p
futex_wake p x d x
futex_wait p x x x timespec clock
futex_requeue p x d d
mseal p u x
setxattrat dirfd path atflags str p u
getxattrat dirfd path atflags str p u
listxattrat dirfd path atflags p u
removexattrat dirfd path atflags str";
