// Declarations that c10d's ProcessGroupGloo.hpp needs from Gloo, whose code lies in libtorch_cpu but whose headers are
// not part of LibTorch. Only backend_group.cc may see them: it must not create objects of these classes or of classes
// derived from them, so that their virtual tables always come from libtorch_cpu.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
