#include "jobs/sandbox/system_call_filter.h"

#include <asm/ioctls.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace volador::jobs {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif
constexpr uint32_t kX32Bit = 0x40000000;  // Numbers of the x32 interface of x86-64 start here.

constexpr std::array kDenied = {
    // Mounts and roots.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_open_by_handle_at,
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    SYS_quotactl_fd,
    // Namespaces.
    SYS_unshare,
    SYS_setns,
    SYS_sethostname,
    SYS_setdomainname,
    // Keys of the user, which namespaces do not separate.
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // The kernel and the machine.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_syslog,
    SYS_acct,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_vhangup,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_uselib,
#endif
};

using Filter = std::vector<sock_filter>;

sock_filter statement(uint16_t code, uint32_t value) { return {.code = code, .jt = 0, .jf = 0, .k = value}; }
sock_filter jump(uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false) {
  return {.code = static_cast<uint16_t>(BPF_JMP | code | BPF_K), .jt = if_true, .jf = if_false, .k = value};
}
sock_filter load(size_t offset) { return statement(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
sock_filter give(uint32_t action, int error = 0) {
  return statement(BPF_RET | BPF_K, action | (static_cast<uint32_t>(error) & SECCOMP_RET_DATA));
}
// The lower half of an argument; the kernel ignores the upper one of flags and of commands of ioctl.
constexpr size_t argument(size_t index) { return offsetof(seccomp_data, args) + index * sizeof(uint64_t); }

}  // namespace

std::string system_call_filter() {
  if (kArchitecture == 0) return "";
  Filter filter;
  const auto add = [&](std::initializer_list<sock_filter> more) { filter.insert(filter.end(), more); };
  // Calls of another interface of the processor, such as the 32-bit one, have other numbers.
  add({load(offsetof(seccomp_data, arch)), jump(BPF_JEQ, kArchitecture, 1, 0), give(SECCOMP_RET_ERRNO, ENOSYS),
       load(offsetof(seccomp_data, nr)), jump(BPF_JGE, kX32Bit, 0, 1), give(SECCOMP_RET_ERRNO, ENOSYS)});
  for (const long number : kDenied)
    add({jump(BPF_JEQ, static_cast<uint32_t>(number), 0, 1), give(SECCOMP_RET_ERRNO, EPERM)});
  // A filter cannot read the flags of clone3; the C library uses clone then.
  add({jump(BPF_JEQ, SYS_clone3, 0, 1), give(SECCOMP_RET_ERRNO, ENOSYS)});
  constexpr uint32_t kNamespaces =
      CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  add({jump(BPF_JEQ, SYS_clone, 0, 3), load(argument(0)), jump(BPF_JSET, kNamespaces, 0, 6),
       give(SECCOMP_RET_ERRNO, EPERM)});
  // Input that a program puts into its terminal would be typed for the shell outside.
  add({jump(BPF_JEQ, SYS_ioctl, 0, 4), load(argument(1)), jump(BPF_JEQ, TIOCSTI, 1, 0), jump(BPF_JEQ, TIOCLINUX, 0, 1),
       give(SECCOMP_RET_ERRNO, EPERM)});
  add({give(SECCOMP_RET_ALLOW)});
  return {reinterpret_cast<const char*>(filter.data()), filter.size() * sizeof(sock_filter)};
}

}  // namespace volador::jobs
