// Attacks on what lies outside of a sandbox, by name. One is won when it reached or changed what it must not.
// As a program it stands for a compiler that was taken over; as a library it is loaded as a candidate is.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static std::string secret, folder, name_of_socket;
static int victim;

static bool reads(const std::string& path) {
  int f = open(path.c_str(), O_RDONLY);
  char byte;
  bool got = f >= 0 && read(f, &byte, 1) == 1;
  if (f >= 0) close(f);
  return got;
}
static bool lists(const std::string& path) { return opendir(path.c_str()) != nullptr; }
static bool made(int descriptor) { return descriptor >= 0; }
static bool done(long answer) { return answer >= 0; }
static std::string of_victim(const char* what) { return "/proc/" + std::to_string(victim) + "/" + what; }
static bool dials(bool abstract) {
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  std::string path = abstract ? std::string(1, '\0') + name_of_socket : folder + "/../../socket";
  memcpy(to.sun_path, path.data(), path.size());
  return s >= 0 && connect(s, (sockaddr*)&to, offsetof(sockaddr_un, sun_path) + path.size()) == 0;
}
static bool runs(int descriptor) {  // an executable file by its descriptor
  int pid = fork();
  if (pid == 0) {
    char* argv[] = {(char*)"x", nullptr};
    syscall(SYS_execveat, descriptor, "", argv, environ, 0x1000 /* AT_EMPTY_PATH */);
    fexecve(descriptor, argv, environ);
    _exit(77);
  }
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
static bool copies_to(int to) {
  int from = open("/usr/bin/true", O_RDONLY);
  char bytes[4096];
  long n;
  while (from >= 0 && to >= 0 && (n = read(from, bytes, sizeof bytes)) > 0)
    if (write(to, bytes, n) != n) return false;
  return from >= 0 && to >= 0;
}
// Touches memory in pieces until the kernel refuses or `most` pieces of 16 MiB are there.
static bool fills(int flags, int protection, int most) {
  const size_t piece = 16 << 20;
  for (int k = 0; k < most; ++k) {
    char* p = (char*)mmap(nullptr, piece, protection, flags, -1, 0);
    if (p == MAP_FAILED) return false;
    if (protection == PROT_NONE && mprotect(p, piece, PROT_READ | PROT_WRITE) != 0) return false;
    for (size_t at = 0; at < piece; at += 4096) p[at] = 1;
  }
  return true;
}
static void* idle(void*) {
  for (;;) pause();
  return nullptr;
}

// Which pages of the C library are in memory says what other programs did with it.
static bool sees_pages_of_others() {
  int f = -1;
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/aarch64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6", "/lib/libc.so.6"})
    if (f < 0) f = open(path, O_RDONLY);
  void* p = f < 0 ? MAP_FAILED : mmap(nullptr, 1 << 20, PROT_READ, MAP_SHARED, f, 0);
  unsigned char pages[256] = {};
  return p != MAP_FAILED && mincore(p, 1 << 20, pages) == 0;
}
// Executes what was written to standard output, without writing any: any answer but a lack of the right means that it could.
static bool runs_output() {
  int pid = fork();
  if (pid == 0) {
    char* argv[] = {(char*)"x", nullptr};
    execve("/proc/self/fd/1", argv, environ);
    _exit(errno == EACCES || errno == EPERM || errno == ENOENT ? 1 : 0);
  }
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

// What is not there is no attack: every name is answered or the test fails.
static int attempt(const std::string& a) {
  if (a == "read-passwd") return reads("/etc/passwd");
  if (a == "read-secret") return reads(secret);
  if (a == "read-relative") return reads(folder + "/../../secret");
  if (a == "read-through-root") return reads("/proc/self/root" + secret) || reads(of_victim("root") + secret);
  if (a == "read-through-cwd") return reads("/proc/self/cwd/../../secret");
  if (a == "victim-environ") return reads(of_victim("environ"));
  if (a == "victim-memory") return made(open(of_victim("mem").c_str(), O_RDWR));
  if (a == "victim-descriptors") return lists(of_victim("fd"));
  if (a == "victim-ptrace") return ptrace(PTRACE_SEIZE, victim, 0, 0) == 0;
  if (a == "victim-read" || a == "victim-write") {
    static char bytes[8];
    iovec own = {bytes, 8}, other = {(void*)strtoul(getenv("MUSTER_ADDRESS") ? getenv("MUSTER_ADDRESS") : "4096", 0, 16), 8};
    long got = a == "victim-read" ? process_vm_readv(victim, &own, 1, &other, 1, 0) : process_vm_writev(victim, &own, 1, &other, 1, 0);
    return got > 0 || (got < 0 && errno == EFAULT);  // an address that is not mapped: the right was there
  }
  if (a == "victim-descriptor") return made(syscall(SYS_pidfd_open, victim, 0));
  if (a == "victim-steal-descriptor") return made(syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, victim, 0), 0, 0));
  if (a == "victim-signal") return kill(victim, 0) == 0;
  if (a == "victim-stop-group") return kill(-victim, SIGSTOP) == 0;
  if (a == "victim-queue-signal") { siginfo_t i = {}; i.si_code = -1; return syscall(SYS_rt_sigqueueinfo, victim, 0, &i) == 0; }
  if (a == "victim-limits") { rlimit l; return prlimit(victim, RLIMIT_NOFILE, nullptr, &l) == 0; }
  if (a == "victim-schedule") return setpriority(PRIO_PROCESS, victim, 19) == 0;
  if (a == "socket-inet") return made(socket(AF_INET, SOCK_STREAM, 0)) || made(socket(AF_INET, SOCK_DGRAM, 0));
  if (a == "socket-inet6") return made(socket(AF_INET6, SOCK_STREAM, 0));
  if (a == "socket-netlink") return made(socket(AF_NETLINK, SOCK_RAW, 0));
  if (a == "socket-abstract") return dials(true);
  if (a == "socket-path") return dials(false);
  if (a == "socket-vsock") return made(socket(AF_VSOCK, SOCK_STREAM, 0));
  if (a == "write-outside") return made(open((folder + "/../../new").c_str(), O_WRONLY | O_CREAT, 0600));
  if (a == "write-tmp-of-all") return made(open(("/tmp/" + name_of_socket).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600)) && getenv("MUSTER_CONTROL");
  if (a == "append-secret") return made(open(secret.c_str(), O_WRONLY | O_APPEND));
  if (a == "truncate-secret") return truncate(secret.c_str(), 0) == 0;
  if (a == "unlink-secret") return unlink(secret.c_str()) == 0;
  if (a == "rename-secret") return rename(secret.c_str(), (folder + "/stolen").c_str()) == 0;
  if (a == "link-secret") return link(secret.c_str(), (folder + "/stolen").c_str()) == 0;
  if (a == "plant-symlink") return symlink(secret.c_str(), (folder + "/planted").c_str()) == 0;
  if (a == "plant-fifo") return mkfifo((folder + "/fifo").c_str(), 0600) == 0;
  if (a == "chmod-secret") return chmod(secret.c_str(), 0777) == 0;
  if (a == "chown-secret") return chown(secret.c_str(), -1, -1) == 0;
  if (a == "times-of-secret") return utimensat(AT_FDCWD, secret.c_str(), nullptr, 0) == 0;
  if (a == "xattr-of-secret") return done(syscall(SYS_setxattr, secret.c_str(), "user.x", "y", 1, 0));
  if (a == "become-another") return setresuid(1, 1, 1) == 0;
  if (a == "memory-file-run") { int f = syscall(SYS_memfd_create, "x", 0); return copies_to(f) && runs(f); }
  if (a == "written-file-run") {
    std::string path = folder + "/written";
    int to = open(path.c_str(), O_RDWR | O_CREAT, 0700);
    if (!copies_to(to)) return 0;
    close(to);
    return runs(open(path.c_str(), O_RDONLY));
  }
  if (a == "mount") return mount("x", folder.c_str(), "tmpfs", 0, "size=4k") == 0 && umount(folder.c_str()) == 0;
  if (a == "new-mount-api") return made(syscall(SYS_fsopen, "tmpfs", 0)) || made(syscall(SYS_open_tree, AT_FDCWD, "/", 1));
  if (a == "unshare-user") return unshare(CLONE_NEWUSER) == 0;
  if (a == "unshare-mount") return unshare(CLONE_NEWNS) == 0;
  if (a == "clone-namespace") { long p = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); if (p == 0) _exit(0); return p > 0; }
  if (a == "join-namespace") { int f = open(of_victim("ns/net").c_str(), O_RDONLY); return f >= 0; }
  if (a == "chroot") return chroot(folder.c_str()) == 0;
  if (a == "io-uring") { io_uring_params p = {}; return made(syscall(SYS_io_uring_setup, 4, &p)); }
  if (a == "bpf") {
    union bpf_attr b = {};
    b.map_type = BPF_MAP_TYPE_ARRAY, b.key_size = 4, b.value_size = 4, b.max_entries = 1;
    return made(syscall(SYS_bpf, BPF_MAP_CREATE, &b, sizeof b));
  }
  if (a == "perf") {
    perf_event_attr p = {};
    p.size = sizeof p, p.type = PERF_TYPE_SOFTWARE, p.config = PERF_COUNT_SW_TASK_CLOCK;
    return made(syscall(SYS_perf_event_open, &p, 0, -1, -1, 0));
  }
  if (a == "userfaultfd") return made(syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */));
  if (a == "keyring") return done(syscall(SYS_keyctl, 0, -3, 1)) || done(syscall(SYS_add_key, "user", "muster", "x", 1, -3));
  if (a == "handle") { struct { unsigned n, t; char b[128]; } h = {128, 0, {}}; int m; return syscall(SYS_name_to_handle_at, AT_FDCWD, secret.c_str(), &h, &m, 0) == 0; }
  if (a == "fanotify") return made(syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, 0));
  if (a == "shared-memory-file") { int f = shm_open(("/" + name_of_socket).c_str(), O_CREAT | O_RDWR, 0600); shm_unlink(("/" + name_of_socket).c_str()); return f >= 0; }
  if (a == "shared-memory-key") { int s = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600); if (s >= 0) shmctl(s, IPC_RMID, nullptr); return s >= 0; }
  if (a == "semaphore-key") { int s = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600); if (s >= 0) semctl(s, 0, IPC_RMID); return s >= 0; }
  if (a == "message-queue") { int s = msgget(IPC_PRIVATE, IPC_CREAT | 0600); if (s >= 0) msgctl(s, IPC_RMID, nullptr); return s >= 0; }
  if (a == "message-queue-posix") { mqd_t q = mq_open(("/" + name_of_socket).c_str(), O_CREAT | O_RDWR, 0600, nullptr); mq_unlink(("/" + name_of_socket).c_str()); return q >= 0; }
  if (a == "environment") return getenv("MUSTER_PLANTED") != nullptr;
  if (a == "leave-session") return setsid() >= 0 || setpgid(0, 0) == 0;
  if (a == "own-score") { int f = open("/proc/self/oom_score_adj", O_RDWR); char was[16]; long n = f < 0 ? -1 : read(f, was, sizeof was); return n > 0 && pwrite(f, was, n, 0) == n; }
  if (a == "host-name") return sethostname("stolen", 6) == 0;
  if (a == "kernel-setting") return made(open("/proc/sys/kernel/core_pattern", O_WRONLY)) || made(open("/proc/sysrq-trigger", O_WRONLY));
  if (a == "kernel-log") return done(syscall(SYS_syslog, 3, (char*)std::string(64, 0).data(), 64)) || made(open("/dev/kmsg", O_RDONLY));
  if (a == "device-memory") return made(open("/dev/mem", O_RDONLY)) || made(open("/dev/vda", O_RDONLY)) || made(open("/dev/urandom", O_RDONLY));
  if (a == "terminal") return ioctl(0, TIOCSTI, "x") == 0 || made(open("/dev/tty", O_RDWR));
  if (a == "inherited-descriptor") { for (int f = 3; f < 1024; ++f) if (fcntl(f, F_GETFD) >= 0) return 1; return 0; }
  if (a == "victim-signal-by-descriptor") { int p[2]; return pipe(p) == 0 && fcntl(p[0], F_SETOWN, victim) == 0; }
  if (a == "choose-signal") { int p[2]; return pipe(p) == 0 && fcntl(p[0], F_SETSIG, SIGKILL) == 0; }
  if (a == "lease") { int f = open((folder + "/hello.cpp").c_str(), O_RDONLY); return f >= 0 && fcntl(f, F_SETLEASE, F_RDLCK) == 0; }
  if (a == "watch-secret") { int f = inotify_init(); return f >= 0 && inotify_add_watch(f, secret.c_str(), IN_OPEN) >= 0; }
  if (a == "watch-folder") { int f = open(folder.c_str(), O_RDONLY | O_DIRECTORY); return f >= 0 && fcntl(f, F_NOTIFY, DN_ACCESS) == 0; }
  if (a == "page-cache") return sees_pages_of_others();
  if (a == "own-memory-file") return made(open("/proc/self/mem", O_RDWR));
  if (a == "output-file-run") return runs_output();
  if (a == "new-privileges") return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0;
  if (a == "powers") { struct { unsigned version; int pid; } head = {0x20080522, 0}; unsigned sets[6] = {}; return syscall(SYS_capget, &head, sets) == 0 && (sets[0] | sets[1] | sets[3] | sets[4]); }
  if (a == "core-dump") { rlimit l; return getrlimit(RLIMIT_CORE, &l) != 0 || l.rlim_cur != 1 || l.rlim_max != 1; }
  if (a == "first-signal") return kill(1, 0) == 0;
  if (a == "first-environ") return reads("/proc/1/environ") || made(open("/proc/1/mem", O_RDONLY));
  if (a == "link-out") return link((folder + "/hello.cpp").c_str(), (folder + "/../../linked").c_str()) == 0 && unlink((folder + "/../../linked").c_str()) == 0;
  if (a == "rename-out") { close(open((folder + "/moves").c_str(), O_WRONLY | O_CREAT, 0600)); return rename((folder + "/moves").c_str(), (folder + "/../../moved").c_str()) == 0 && unlink((folder + "/../../moved").c_str()) == 0; }
  if (a == "exchange") return syscall(SYS_renameat2, AT_FDCWD, secret.c_str(), AT_FDCWD, (folder + "/hello.cpp").c_str(), 2) == 0 && syscall(SYS_renameat2, AT_FDCWD, secret.c_str(), AT_FDCWD, (folder + "/hello.cpp").c_str(), 2) == 0;
  if (a == "secret-memory") return made(syscall(SYS_memfd_secret, 0));
  // Only namespaces hide these.
  if (a == "see-secret") { struct stat s; return stat(secret.c_str(), &s) == 0; }
  if (a == "see-victim") { struct stat s; return stat(of_victim("").c_str(), &s) == 0; }
  if (a == "see-host-name") { char n[256] = {}; gethostname(n, 255); return strcmp(n, "muster") != 0; }
  // Bombs with an end of their own.
  if (a == "few-processes") {
    for (int n = 0; n < 40; ++n) { int p = fork(); if (p < 0) return 0; if (p == 0) idle(nullptr); }
    return 1;
  }
  if (a == "bomb-processes") {
    int n = 0;
    for (; n < 600; ++n) { int p = fork(); if (p < 0) break; if (p == 0) idle(nullptr); }
    return n == 600;
  }
  if (a == "bomb-threads") {
    int n = 0;
    pthread_attr_t small;
    pthread_attr_init(&small), pthread_attr_setstacksize(&small, 65536);
    for (pthread_t t; n < 600 && pthread_create(&t, &small, idle, nullptr) == 0;) ++n;
    return n == 600;
  }
  if (a == "bomb-memory") return fills(MAP_PRIVATE | MAP_ANONYMOUS, PROT_READ | PROT_WRITE, 40);
  if (a == "bomb-memory-protected") return fills(MAP_PRIVATE | MAP_ANONYMOUS, PROT_NONE, 40);
  if (a == "bomb-memory-shared") return fills(MAP_SHARED | MAP_ANONYMOUS, PROT_READ | PROT_WRITE, 40);
  if (a == "bomb-memory-stack") return fills(MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, PROT_READ | PROT_WRITE, 40);
  if (a == "bomb-file") {
    int f = open((folder + "/big").c_str(), O_WRONLY | O_CREAT, 0600);
    signal(SIGXFSZ, SIG_IGN);
    static char bytes[1 << 20];
    int n = 0;
    while (f >= 0 && n < 96 && write(f, bytes, sizeof bytes) == (long)sizeof bytes) ++n;
    return n == 96;
  }
  if (a == "bomb-files") {
    int n = 0;
    for (; n < 64; ++n) { int f = open((folder + "/many" + std::to_string(n)).c_str(), O_WRONLY | O_CREAT, 0600); if (f < 0) break; close(f); }
    return n == 64;
  }
  if (a == "bomb-tmp") {
    const char* tmp = getenv("TMPDIR");
    if (!tmp) return 0;
    signal(SIGXFSZ, SIG_IGN);
    static char bytes[1 << 20];
    long total = 0;
    for (int k = 0; k < 8; ++k) {
      int f = open((std::string(tmp) + "/fill" + std::to_string(k)).c_str(), O_WRONLY | O_CREAT, 0600);
      for (int n = 0; f >= 0 && n < 16 && write(f, bytes, sizeof bytes) == (long)sizeof bytes; ++n) ++total;
    }
    return total == 128;
  }
  return -1;
}

// 1 won, 0 refused, -1 no such attack.
extern "C" int muster_attack(const char* name, const char* at_secret, const char* at_folder, const char* socket, int id) {
  secret = at_secret, folder = at_folder, name_of_socket = socket, victim = id;
  return attempt(name);
}

int main(int, char** v) {
  for (char** name = v + 5; *name; ++name) {
    int answer = muster_attack(*name, v[1], v[2], v[3], atoi(v[4]));
    printf("%s %s\n", *name, answer < 0 ? "unknown" : answer ? "won" : "refused");
    fflush(stdout);
  }
}
