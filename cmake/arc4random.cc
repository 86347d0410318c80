// arc4random() of programs that are linked with VOLADOR_STATIC. Debian 12's libstdc++.a takes it from glibc 2.36 for std::random_device, and
// with it the program would not start on Ubuntu 22.04, which has glibc 2.35.
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

extern "C" uint32_t arc4random() {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {  // So few bytes come whole.
    if (errno != EINTR) std::abort();
  }
  return value;
}
